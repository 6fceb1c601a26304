"""How a model of transformers writes: greedy, beam and nucleus search, VCD, differentiated beam decoding."""
