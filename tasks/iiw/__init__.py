"""ImageInWords: detailed human captions that ship with the package."""
