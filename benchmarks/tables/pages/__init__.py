"""What pages of capbench share: their look, and how templates become HTML."""
