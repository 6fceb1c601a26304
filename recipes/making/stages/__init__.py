"""The stages of makers: one file each."""
