"""What is known of runs outside the steps: their record in the bucket, and the cluster as people see it."""

DEFAULT_PRESET = "qwen3-32b"
"""The experiment of a run that names none."""

PLAN = "plan.json"
"""Name of the plan in a run's folder."""
