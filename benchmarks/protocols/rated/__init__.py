"""Captions that people rated: read, ruled out, gathered, and taken apart into what statistics are of."""
