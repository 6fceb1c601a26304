"""Visual Genome: images with boxes of their regions and objects."""
