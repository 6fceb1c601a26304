"""Web pages for finished runs: samples with images, scores against ratings, comparisons of two runs."""
