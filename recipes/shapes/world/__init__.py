"""What trains the models of the shapes world, which ``make world`` runs in a checkout alone: no part of the wheel."""
