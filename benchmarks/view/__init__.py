"""Finished runs in a browser: samples with their images, scores against ratings, two runs side by side."""
