"""DCI and sDCI: densely captioned images, and the crops and captions that are matched."""
