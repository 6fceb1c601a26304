"""SPICE without Java: facts of scene graphs, compared by words and synonyms, or by meaning (Li et al. 2023)."""
