"""The namespace is deleted under a run. Writes its row of docs/reference/faults.md.

Not part of `make test` (some minutes):

    .venv/bin/pytest -s tests/end_to_end/namespace.py
"""

import time

from specdecode import names

from tests.end_to_end.cloud import LONG, Cloud, deployed
from tests.end_to_end.page import write_faults


def test_the_namespace_is_deleted_under_a_run() -> None:
    with deployed() as running:
        cloud = Cloud(running)
        run = cloud.start("no-namespace", LONG)
        cloud.until_step(run, "Compile")
        since = time.time()
        cloud.running.kubernetes.request("DELETE", f"/api/v1/namespaces/{names.NAMESPACE}")
        end = cloud.ended(run)
        lasted_s = time.time() - since
        assert end.status == "FAILED", end.cause
        found = cloud.diagnosis(run)
        assert found["row"] in ("namespace-ending", "namespace-gone"), found
        assert names.NAMESPACE in found["cause"], found
        cloud.at_rest()
        cloud.note_node("the namespace is deleted", "Compile", run, cause=found["cause"], lasted_s=lasted_s)
        write_faults(cloud.rows)
