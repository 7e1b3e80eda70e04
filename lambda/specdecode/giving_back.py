"""Periods and limits of watchdog and backstop: the longest time until a node that no run needs is gone."""

WATCHDOG_PERIOD_MINUTES = 5
"""Minutes between two looks of the watchdog. It also looks after every execution that ended badly."""

CLAIM_GRACE_MINUTES = 15
"""Minutes after the replicas went to 0 after which the watchdog deletes a NodeClaim that Karpenter has not begun to
end. Karpenter drains for 10 at most (the NodePool's terminationGracePeriod).
"""

BACKSTOP_PERIOD_MINUTES = 10
"""Minutes between two looks of the backstop, which calls neither Kubernetes nor the bucket."""

BACKSTOP_WINDOW_MINUTES = 30
"""Minutes without a heartbeat, or with a node without a lease, before the backstop ends instances that are as old. It
is twice CLAIM_GRACE_MINUTES, so that the watchdog comes first.
"""

LONGEST_RUN_HOURS = 48
"""Hours for which a run may hold the node before the alarm StuckRun. A setting can change it."""

STUCK_GRACE_HOURS = 12
"""Hours that a person has after the alarm StuckRun, before the backstop ends the run's instance."""

DYNAMIC_HOURS = 24
"""Hours after which Karpenter ends a CPU node that stages or compiles, even one in use. The backstop ends it an hour
later.
"""

BEFORE_NODE_HOURS = 48
"""Hours before a run holds the node: a day in the queue and a day of staging. An execution that is older than these and
the longest run together protects no instance, if the watchdog does not say who holds the node. Nor is an instance that
is older protected, if the backstop cannot ask CloudWatch or Step Functions.
"""
