"""The pipeline's client over HTTPS with both lines of urllib3 that a Lambda runtime has shipped: 1.26 and 2.

The python3.11 runtime had 1.26.19 until December 2025 and has 2.6.3 since; nobody pins it. 1.26 is the copy that the
pip of Python 3.11 carries. It checks names of hosts only, not addresses. EKS gives its API server a name.
"""

from pathlib import Path
from types import ModuleType

import pytest
import urllib3
from pip._vendor import urllib3 as urllib3_of_pip
from specdecode.kubernetes import client, connect
from specdecode.kubernetes.client import ClusterUnavailable, Kubernetes
from specdecode.kubernetes.connect import https_transport

from rehearsal.kubernetes.certificates import server_context
from tests.rehearsal.kubernetes.conftest import Double


@pytest.fixture(params=[urllib3_of_pip, urllib3], ids=["1.26", "2"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module: ModuleType = request.param
    monkeypatch.setattr(client, "urllib3", module)
    monkeypatch.setattr(connect, "urllib3", module)
    return module


def named(double: Double) -> str:
    return double.url.replace("127.0.0.1", "localhost")


def test_the_two_are_what_they_are_called() -> None:
    assert urllib3_of_pip.__version__.startswith("1.26.")
    assert urllib3.__version__.startswith("2.")


def test_a_request_is_verified_by_the_cluster_s_own_authority(library: ModuleType, double: Double) -> None:
    send = https_transport(endpoint=named(double), ca_pem=double.ca_file.read_text())
    kube = Kubernetes(send, token=lambda renew: double.token)
    assert kube.get("NodePool", "nobody") is None
    assert isinstance(kube.list("Node"), list)


def test_a_server_of_another_authority_is_refused(library: ModuleType, double: Double, tmp_path: Path) -> None:
    _, other = server_context(tmp_path)
    send = https_transport(endpoint=named(double), ca_pem=other.read_text())
    kube = Kubernetes(send, token=lambda renew: double.token, sleep=lambda seconds: None)
    with pytest.raises(ClusterUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        kube.list("Node")


def test_nobody_answers(library: ModuleType, double: Double) -> None:
    send = https_transport(endpoint="https://127.0.0.1:9", ca_pem=double.ca_file.read_text())
    kube = Kubernetes(send, token=lambda renew: double.token, sleep=lambda seconds: None)
    with pytest.raises(ClusterUnavailable, match="NewConnectionError"):
        kube.list("Node")
