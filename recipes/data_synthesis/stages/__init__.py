"""The stages of pipelines: one file each."""
