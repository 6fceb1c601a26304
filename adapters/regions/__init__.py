"""Models that find regions of images, and that paint images from texts."""
