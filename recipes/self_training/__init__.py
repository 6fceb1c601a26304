"""Self-training: a captioner's captions are synthesised into better ones, a captioner is trained on them, and so on."""
