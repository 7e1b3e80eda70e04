"""A pod whose session of AWS nobody renewed says so, and its Job may try again with a new one."""

from pathlib import Path
from typing import Any

import pytest
from specdecode.benchmark.place import PlaceError, S3Folder
from specdecode.exit_codes import PERMANENT, Exit
from specdecode.pod.bucket import Bucket
from specdecode.pod.program import PodError
from specdecode.store import Store

from tests.specdecode.steps.aws_fake import client_error

BOTOCORE = RuntimeError("Credentials were refreshed, but the refreshed credentials are still expired.")
"""As botocore/credentials.py says it, RefreshableCredentials._protected_refresh."""


class Expired:
    """An S3 client whose every call fails so."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any, **__: Any) -> Any:
            raise self.error

        return call


@pytest.mark.parametrize("error", [BOTOCORE, client_error("ExpiredToken", "PutObject")], ids=["botocore", "S3"])
def test_a_program_says_that_its_session_was_not_renewed(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(PodError, match="session of AWS was not renewed") as caught:
        Bucket("bucket", Expired(error)).upload(tmp_path / "x", "runs/r/x")
    assert caught.value.code == Exit.UNAVAILABLE
    assert Exit.UNAVAILABLE not in PERMANENT


def test_the_benchmark_keeps_what_it_could_not_store(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("{}\n")
    folder = S3Folder("s3://bucket/runs/r/")
    folder.__dict__["store"] = Store(s3=Expired(BOTOCORE), bucket="bucket")
    with pytest.raises(PlaceError, match="still expired"):
        folder.put("raw/a.jsonl", path)
    with pytest.raises(PlaceError, match="still expired"):
        folder.get("raw/a.jsonl")
