"""Log groups that AWS writes under fixed names, and would keep for ever: EKS's, and those of Container Insights.

CloudFormation cannot own them. EKS makes its group again when the last lines of a deleted cluster arrive, and the
agent's pods do the same (terraform-aws-eks#920, #2446): the next deployment's create would find them there and fail.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any


def keep(names: Iterable[str], *, days: int, logs: Any) -> None:
    """Make each group that is missing, and let each forget its lines after `days`. Done twice, it changes nothing.

    `logs` is a client of CloudWatch Logs. Raises botocore's ClientError.
    """
    for name in names:
        with contextlib.suppress(logs.exceptions.ResourceAlreadyExistsException):
            logs.create_log_group(logGroupName=name)
        logs.put_retention_policy(logGroupName=name, retentionInDays=days)
