"""Words of captions: the PTB tokenizer, n-grams, document frequencies, the objects of COCO."""
