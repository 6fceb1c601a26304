"""Runs: planned, scored, finished."""
