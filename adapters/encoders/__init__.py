"""Models that encode images and texts."""
