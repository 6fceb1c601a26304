"""Preferences as people give them: read, and held against scores."""
