"""The stacks: which constructs they have, in which order. No resource details."""
