"""Shards of a run: gathered, placed as units, scored, and put together."""
