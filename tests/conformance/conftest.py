"""One server for the contract: KUBECONFIG names it for `make conformance`; without one a double is started."""

import contextlib
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.server import Server, from_kubeconfig
from tests.rehearsal.kubernetes.conftest import start


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Ends with everything removed, after Ctrl-C too."""
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


@pytest.fixture(scope="session")
def namespaces(server: Server) -> dict[str, str]:
    return two_namespaces(server)


def two_namespaces(server: Server) -> dict[str, str]:
    """One without a pod security level, one that is `restricted`."""
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"open": server.namespace(), "restricted": server.namespace(**restricted)}
