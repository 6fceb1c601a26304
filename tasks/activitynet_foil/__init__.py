"""ActivityNet-FOIL: paragraphs on videos beside copies with one wrong noun."""
