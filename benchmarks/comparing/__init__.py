"""Finished runs, held against each other."""
