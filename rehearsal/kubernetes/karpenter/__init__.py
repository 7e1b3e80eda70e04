"""Karpenter v1.14 with its AWS provider, as far as a static trn2 pool and a dynamic CPU pool need it."""
