"""Words of captions: the PTB tokenizer, n-grams, the objects of COCO."""
