"""What ``matching`` is made of: reading, encoding, hits, means over categories, and what texts alone would reach."""
