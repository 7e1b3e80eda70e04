"""Log groups that AWS writes under fixed names and keeps for ever: those of EKS and of Container Insights.

CloudFormation cannot own them. EKS makes its group again when the last lines of a deleted cluster arrive, and so do the
agent's pods (terraform-aws-eks#920, #2446). The next deployment would then fail to create them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any


def keep(names: Iterable[str], *, days: int, logs: Any) -> None:
    """Make each missing group, and let each delete its lines after `days`. A second call changes nothing.

    `logs` is a client of CloudWatch Logs. Raises botocore's ClientError.
    """
    for name in names:
        with contextlib.suppress(logs.exceptions.ResourceAlreadyExistsException):
            logs.create_log_group(logGroupName=name)
        logs.put_retention_policy(logGroupName=name, retentionInDays=days)
