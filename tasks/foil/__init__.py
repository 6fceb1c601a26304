"""FOIL: captions beside copies with one wrong noun."""
