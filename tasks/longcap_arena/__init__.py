"""LongCap-Arena: long captions, rated for what they describe, relevance and fluency."""
