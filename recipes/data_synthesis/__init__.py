"""Makes data: regions, phrases, captions of regions, and what is made of them."""
