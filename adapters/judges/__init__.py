"""Models that judge captions."""
