"""MSVD-Eval: captions of short videos, rated by two people for four things."""
