"""VDC: detailed captions of videos, by questions that a judge answers from them."""
