"""Words of captions: the PTB tokenizer, n-grams, pipelines of spaCy."""
