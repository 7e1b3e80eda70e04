"""One server for the contract: KUBECONFIG names it for `make conformance`; without one a double is started."""

import contextlib
import os
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from specdecode import names

from constructs_lib.cluster.access import READ_NAMESPACE, WRITE_NAMESPACE
from tests.conformance import answers
from tests.conformance.server import Server, from_kubeconfig
from tests.rehearsal.kubernetes.conftest import start

_RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Everything is removed at the end, also after Ctrl-C."""
    named = os.environ.get("CONFORMANCE_KUBECONFIG")
    if not named:
        with started_double(tmp_path_factory.mktemp("conformance")) as double:
            yield double
        return
    real = from_kubeconfig(named)
    try:
        yield real
    finally:
        real.clean()


@contextlib.contextmanager
def started_double(folder: Path) -> Iterator[Server]:
    double = start(folder)
    try:
        context = ssl.create_default_context(cafile=str(double.ca_file))
        yield Server(double.url, context, double.token, is_double=True)
    finally:
        double.stop()
        said = (folder / "stderr").read_text()
        assert "Traceback" not in said, said


@pytest.fixture(scope="session")
def places(server: Server) -> answers.Places:
    return answers.places(server)


@pytest.fixture(scope="session")
def namespaces(places: answers.Places) -> Mapping[str, str]:
    return places.namespaces


@pytest.fixture(scope="session")
def granted(server: Server, namespaces: Mapping[str, str]) -> str:
    """The restricted namespace with the pipeline's role and service accounts, as after a deployment."""
    namespace = namespaces["restricted"]
    for account in (*names.SERVICE_ACCOUNTS.values(), names.PLAIN_ACCOUNT):
        server.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": account}})
    role = {"metadata": {"name": "pipeline"}, "rules": [*READ_NAMESPACE, *WRITE_NAMESPACE]}
    assert server.request("POST", f"{_RBAC}/namespaces/{namespace}/roles", role)[0] == 201
    binding = {
        "metadata": {"name": "pipeline"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pipeline"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": names.PIPELINE_GROUP}],
    }
    assert server.request("POST", f"{_RBAC}/namespaces/{namespace}/rolebindings", binding)[0] == 201
    return namespace
