"""Secrets in volumes: a change reaches a running pod, but not a file that is mounted alone."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.rehearsal.kubernetes.conftest import Double, start
from tests.rehearsal.kubernetes.manifests import pod

SECRETS = "/api/v1/namespaces/sessions/secrets"
PODS = "/api/v1/namespaces/sessions/pods"


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    made = start(tmp_path_factory.mktemp("secrets"))
    made.namespace("sessions")
    yield made
    made.stop()


def secret(text: str) -> dict[str, Any]:
    data = {"credentials.json": base64.b64encode(text.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "session"}, "data": data}


def test_a_replaced_secret_follows_into_a_running_pod_whole(double: Double) -> None:
    double.ok("POST", SECRETS, secret("first"))
    mounts = [
        {"name": "work", "mountPath": "/w"},
        {"name": "aws", "mountPath": "/w/aws", "readOnly": True},
        {"name": "aws", "mountPath": "/w/alone.json", "subPath": "credentials.json", "readOnly": True},
    ]
    script = (
        "until grep -q second aws/credentials.json; do sleep 0.2; done; "
        'echo "folder $(cat aws/credentials.json) alone $(cat alone.json) mode $(stat -c %a aws/credentials.json)"'
    )
    container = {"volumeMounts": mounts, "workingDir": "/w"}
    volumes = [
        {"name": "work", "emptyDir": {}},
        {"name": "aws", "secret": {"secretName": "session", "defaultMode": 0o440}},
    ]
    double.ok("POST", PODS, pod("watching", script, container=container, volumes=volumes))
    double.wait(f"{PODS}/watching", lambda found: found["status"].get("phase") == "Running")
    double.ok("PUT", f"{SECRETS}/session", secret("second"))
    double.wait(f"{PODS}/watching", lambda found: found["status"].get("phase") == "Succeeded")
    code, log = double.request("GET", f"{PODS}/watching/log")
    assert code == 200
    assert "folder second alone first mode 440" in str(log)


def test_replacing_what_is_not_there_creates_nothing(double: Double) -> None:
    body = secret("x") | {"metadata": {"name": "none"}}
    code, answer = double.request("PUT", f"{SECRETS}/none", body)
    assert (code, answer["reason"]) == (404, "NotFound")


def test_a_replaced_secret_shows_what_was_sent_and_not_what_was_there(double: Double) -> None:
    old = secret("old") | {"metadata": {"name": "shown"}}
    old["data"]["other"] = base64.b64encode(b"hidden").decode()
    double.ok("POST", SECRETS, old)
    answer = double.ok("PUT", f"{SECRETS}/shown", secret("new") | {"metadata": {"name": "shown"}})
    assert set(answer["data"]) == {"credentials.json"}
