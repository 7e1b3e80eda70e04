"""The composition roots: which constructs make a stack, and in what order. No resource details."""
