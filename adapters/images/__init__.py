"""Images and videos: handles, reading, and the transforms of encoders."""
