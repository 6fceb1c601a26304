"""Urban1k: street scenes with long captions by GPT-4V."""
