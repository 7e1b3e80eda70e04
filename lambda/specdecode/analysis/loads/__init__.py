"""What changes with the load: the curve, where it crosses 1, the best k and the objective."""
