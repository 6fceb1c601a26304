"""CAPTURE: scene graphs of candidate and reference, matched (Dong et al. 2024, section 3 and appendix B)."""
