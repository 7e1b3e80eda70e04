"""The rehearsal: the same stacks, state machine, Lambdas, manifests and benchmark on one machine, without AWS."""
