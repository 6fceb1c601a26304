"""FOIL: captions, paired with copies with one wrong noun."""
