"""A fault of CloudWatch: it throttles PutMetricData as long as a test wants it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ministack.services import cloudwatch

SWITCH = "cloudwatch-throttles"
"""File in the emulator's state folder: while it exists, every PutMetricData is refused."""


def throttling(put: Callable[..., Any], switch: Path) -> Callable[..., Any]:
    """Wrap the emulator's PutMetricData."""

    def put_metric_data(params: Any, cbor_data: Any, is_cbor: bool, is_json: bool = False) -> Any:
        if switch.exists():
            return cloudwatch._error("Throttling", "Rate exceeded", 400, use_json=is_json, use_cbor=is_cbor)
        return put(params, cbor_data, is_cbor, is_json)

    return put_metric_data
