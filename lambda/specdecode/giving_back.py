"""The longest time until a node that no run needs is gone: periods and limits of the watchdog and the backstop."""

WATCHDOG_PERIOD_MINUTES = 5
"""The watchdog looks that often, and whenever an execution ended badly."""

CLAIM_GRACE_MINUTES = 15
"""Karpenter itself drains for at most 10 minutes (the NodePool's terminationGracePeriod). What it has not begun to end
so long after the replicas went to 0, the watchdog deletes."""

BACKSTOP_PERIOD_MINUTES = 10
"""The backstop looks that often, and knows neither Kubernetes nor the bucket."""

BACKSTOP_WINDOW_MINUTES = 30
"""So long there was no heartbeat, or a node without a lease, before the backstop ends instances; and it ends none that
is younger. Twice CLAIM_GRACE_MINUTES: first the watchdog has its turn."""

LONGEST_RUN_HOURS = 48
"""Hours for which a run may hold the node before the alarm StuckRun, where no setting says otherwise."""

STUCK_GRACE_HOURS = 12
"""After the alarm StuckRun a person has so long before the backstop ends the run's instance."""

COMPILER_HOURS = 24
"""Age at which Karpenter ends a CPU node that compiles, even one in use; the backstop ends it an hour later."""

BEFORE_NODE_HOURS = 48
"""A day in the queue and a day of staging, before a run holds the node. An execution older than that and the longest
run together protects no instance where the watchdog does not say who holds the node."""
