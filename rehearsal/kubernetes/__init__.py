"""A Kubernetes API double with the controllers, Karpenter and the node that a rehearsal needs.

How it is built: docs/rehearsal/kubernetes.md.

Why it is so: ADR 30.
"""
