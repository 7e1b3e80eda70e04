"""The embedded cloud: the same stack, state machine, Lambdas, manifests and benchmark on one machine, without AWS."""
