"""Boxes, rectangles, masks and points of images, as pure functions of arrays."""
