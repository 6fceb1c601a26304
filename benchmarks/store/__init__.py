"""The cache of captions, features, parses and values, keyed by their producers."""
