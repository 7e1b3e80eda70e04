"""Several runs together: their difference, their trend and the gate for CI."""
