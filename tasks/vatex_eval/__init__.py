"""VATEX-EVAL: captions of videos with the ratings of three people."""
