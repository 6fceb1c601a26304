"""Import from and export to lm-eval, lmms-eval, VLMEvalKit, evaluate, torchmetrics and the Hugging Face hub."""
