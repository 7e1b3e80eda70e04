"""What is known of runs outside the steps: their record in the bucket, the lease, and the cluster as people see it."""

PLAN = "plan.json"
"""Name of the plan in a run's folder."""
