"""A test that runs until it is interrupted. `test_interrupted.py` names this file; no other suite collects it."""

import time

from tests.conformance.fake_node import make_node, pod_spec
from tests.conformance.server import Server


def test_under_way(server: Server) -> None:
    node, namespace = make_node(server), server.namespace()
    made = {"metadata": {"name": "pod"}, "spec": pod_spec(node)}
    server.ok("POST", f"/api/v1/namespaces/{namespace}/pods", made)
    time.sleep(600)
