"""To and from other harnesses: lm-eval, lmms-eval, VLMEvalKit, evaluate, the hub."""
