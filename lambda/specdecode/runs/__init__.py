"""Runs outside the steps: their record in the bucket, the lease, and the cluster as users see it."""
