"""DCScore: which facts of a caption hold, and which of an oracle's it has (DeCapBench, Ye et al. 2025)."""
