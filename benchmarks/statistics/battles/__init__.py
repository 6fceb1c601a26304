"""Battles of systems, two captions of an image against each other: how strong is each system?"""
