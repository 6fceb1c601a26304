"""Polos: a regression on image and text vectors, learned from human ratings."""
