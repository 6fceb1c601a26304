"""MSVD: captions of short videos, some forty a video."""
