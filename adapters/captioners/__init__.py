"""Models that write captions."""
