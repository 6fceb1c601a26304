"""ALOHa: objects that a caption names and that nothing in the references is like (Petryk et al. 2024)."""
