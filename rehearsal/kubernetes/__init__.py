"""A Kubernetes API double with the controllers, Karpenter and node that a rehearsal needs. See README.md.

Why it is so: ADR 20.
"""
