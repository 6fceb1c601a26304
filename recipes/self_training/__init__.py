"""Self-training: alternates data synthesis with a captioner and training of the captioner on the result."""
