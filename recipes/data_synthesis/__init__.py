"""Data synthesis: pipelines of stages that generate captions, regions, negatives and images."""
