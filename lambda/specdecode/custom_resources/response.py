"""CloudFormation's side of a custom resource: the request, and the answer to its pre-signed URL."""

from __future__ import annotations

import json
from typing import Any, Literal

import urllib3
from pydantic import BaseModel, ConfigDict, Field

REASON_LIMIT = 1000
"""Most characters of a reason that CloudFormation shows."""


class Request(BaseModel):
    """CloudFormation's request. Keys that no guard reads are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    RequestType: Literal["Create", "Update", "Delete"]
    RequestId: str
    ResponseURL: str
    StackId: str
    LogicalResourceId: str
    PhysicalResourceId: str | None = None
    ResourceProperties: dict[str, Any] = Field(default_factory=dict)

    @property
    def identity(self) -> str:
        """The physical id to answer with if there is no new one."""
        return self.PhysicalResourceId or self.LogicalResourceId


def answer(request: Request, *, physical_id: str, failure: str | None = None) -> None:
    """Tell CloudFormation that the request is done, or why it failed. Raises urllib3's errors if it cannot be told."""
    body = {
        "Status": "FAILED" if failure else "SUCCESS",
        "Reason": (failure or "")[:REASON_LIMIT],
        "PhysicalResourceId": physical_id,
        "StackId": request.StackId,
        "RequestId": request.RequestId,
        "LogicalResourceId": request.LogicalResourceId,
    }
    http = urllib3.PoolManager(retries=urllib3.Retry(5, backoff_factor=1.0, allowed_methods={"PUT"}))
    # An empty content type: the URL was signed without one.
    http.request("PUT", request.ResponseURL, body=json.dumps(body).encode(), headers={"Content-Type": ""})
