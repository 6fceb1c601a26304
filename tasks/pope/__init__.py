"""POPE: is there such a thing in the photograph?"""
