"""Winoground: two photographs, two captions of the same words."""
