"""ActivityNet-FOIL: paragraphs on videos, paired with copies with one wrong noun."""
