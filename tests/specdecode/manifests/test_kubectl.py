"""What `specdecode manifests` prints is accepted by the real kubectl's server-side dry run against the double."""

from __future__ import annotations

import pytest
from specdecode import names
from specdecode.cli import app
from specdecode.experiment import preset_names
from typer.testing import CliRunner

from tests.rehearsal.kubernetes.conftest import double, kubectl, kubectl_binary, shared_double  # noqa: F401 (fixtures)


@pytest.fixture
def namespaced(double):  # noqa: F811
    if double.request("GET", f"/api/v1/namespaces/{names.NAMESPACE}")[0] == 404:
        double.namespace(names.NAMESPACE)
    return double


@pytest.mark.parametrize("preset", preset_names())
def test_kubectl_apply_dry_run_accepts_every_object(namespaced, kubectl, preset):  # noqa: F811
    printed = CliRunner().invoke(app, ["manifests", preset, "--set", "accuracy=true"]).output
    said = kubectl("apply", "--dry-run=server", "-f", "-", stdin=printed).stdout.splitlines()
    assert len(said) == printed.count("\n---\n") + 1
    assert all(line.endswith("created (server dry run)") for line in said)
    assert namespaced.get(f"/apis/batch/v1/namespaces/{names.NAMESPACE}/jobs")["items"] == []


def test_server_side_apply_takes_them_too(namespaced, kubectl):  # noqa: F811
    printed = CliRunner().invoke(app, ["manifests", "rehearsal"]).output
    said = kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=printed).stdout.splitlines()
    assert said and all(line.endswith("serverside-applied (server dry run)") for line in said)
