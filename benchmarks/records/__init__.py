"""The record of a run: made, written, read, and judged."""
