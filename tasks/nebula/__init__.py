"""Nebula: captions of photographs, rated by 805 people."""
