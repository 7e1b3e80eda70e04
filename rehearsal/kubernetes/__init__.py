"""A Kubernetes API double with the controllers, Karpenter and node that a rehearsal needs. See README.md."""
