"""Metrics and tokenizers that run in Java: how a jar is found, started and talked to."""
