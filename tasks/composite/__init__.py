"""Composite: one rating of each of three captions for 3,995 images of three data sets."""
