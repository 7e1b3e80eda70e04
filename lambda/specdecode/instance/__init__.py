"""A run on one machine, without Kubernetes: the pods of the cluster as containers, or as processes (ADR 210)."""
