"""The constructs of which the stacks are composed: one a file, keyword-only, each saying what it creates and why."""
