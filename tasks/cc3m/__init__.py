"""Conceptual Captions: one caption of the web for each image, as an alternative text."""
