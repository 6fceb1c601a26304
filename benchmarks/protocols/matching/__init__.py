"""The parts of ``matching``: reading, encoding, hits, means over categories, and image-blind baselines."""
