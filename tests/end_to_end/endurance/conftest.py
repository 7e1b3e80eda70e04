"""Load and endurance: a hundred runs, a thousand cases, millions of chunks, thousands of objects; writes
docs/reference/faults.md.

Not part of `make test` (it takes twenty minutes on two calm cores). Run it, or one of its files, with

    .venv/bin/pytest tests/end_to_end/endurance/*.py

What must hold is asserted; what was measured becomes a row of the table. Smaller versions of each property are in
`make test`.
"""

from collections.abc import Iterator

import boto3
import pytest
from botocore.config import Config
from specdecode.kubernetes.client import Kubernetes
from specdecode.kubernetes.connect import https_transport
from specdecode.store import Store

from rehearsal import servers, tools
from rehearsal.rehearse import Rehearsal
from tests.end_to_end.cloud import quiet_rehearsal
from tests.end_to_end.endurance.measuring import Note
from tests.end_to_end.page import write

WAIT_SCALE = 0.1
"""A queued run looks every 30 s."""


@pytest.fixture(scope="session")
def note() -> Note:
    """Writes its row at once. Rows of parts that did not run now stay."""
    return lambda *row: write("endurance", [row], key=1)


@pytest.fixture(scope="session")
def cloud() -> Iterator[Rehearsal]:
    """Both servers; nothing deployed."""
    servers.WAIT_SCALE = WAIT_SCALE
    with quiet_rehearsal() as running:
        yield running


@pytest.fixture(scope="session")
def bucket(cloud: Rehearsal) -> Store:
    """An empty bucket of the embedded S3, with a client that many threads can use."""
    client = boto3.client(
        "s3",
        endpoint_url=cloud.services.endpoint,
        region_name=tools.REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(
            proxies={}, retries={"max_attempts": 2}, s3={"addressing_style": "path"}, max_pool_connections=100
        ),
    )
    client.create_bucket(Bucket="endurance", CreateBucketConfiguration={"LocationConstraint": tools.REGION})
    return Store(s3=client, bucket="endurance")


@pytest.fixture(scope="session")
def kube(cloud: Rehearsal) -> Kubernetes:
    """The product's client at the double, as its administrator."""
    given = cloud.services
    transport = https_transport(endpoint=given.kubernetes_url, ca_pem=given.kubernetes_ca.read_text())
    return Kubernetes(transport, token=lambda renew: given.kubernetes_token)
