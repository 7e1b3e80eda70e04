"""Karpenter's chart, rendered with our values by the Helm that installs it, and what the double makes of them."""

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import SchemaNotFoundError, validate
from specdecode.cli.preflight.cluster_nodes import CHARTS, controller, crd

from constructs_lib.capacity.karpenter import NAMESPACE, SERVICE_ACCOUNT
from constructs_lib.cluster.irsa import ROLE_ANNOTATION
from rehearsal.kubernetes.software import charts
from tests import printed
from tests.rehearsal.kubernetes.conftest import Double, shared_double  # noqa: F401 (fixture)
from tests.specdecode.cli.preflight.test_cluster_nodes import FACTS_THERE, definition, deployment
from tests.templates import Templates
from tests.upstream.conftest import Upstream
from tests.upstream.values import unknown

pytestmark = pytest.mark.synth
Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]
CHART = "charts/karpenter"


@pytest.fixture
def rendered(upstream: Upstream, templates: Templates, render: Render) -> dict[str, Manifest]:
    """The objects, by kind and name."""
    release = templates.charts()["karpenter"]
    objects = render(
        upstream.tree("karpenter", CHART),
        release=release["Release"],
        namespace=release["Namespace"],
        values=release["Values"],
    )
    return {f"{obj['kind']}/{obj['metadata']['name']}": obj for obj in objects}


def test_it_renders_valid_objects(rendered: dict[str, Manifest]) -> None:
    """The chart renders with our values, and each object is valid for Kubernetes 1.35, unknown fields refused."""
    for name, obj in rendered.items():
        try:
            validate(obj, "1.35", strict=True)
        except SchemaNotFoundError:
            pytest.fail(f"{name}: no schema")
    assert {"Deployment/karpenter", "ServiceAccount/karpenter", "PodDisruptionBudget/karpenter"} <= set(rendered)


def test_the_gates_and_settings_arrive(rendered: dict[str, Manifest], templates: Templates) -> None:
    """The controller has the gates for static pools, reservations and prices on, and our names and sizes."""
    deployment = rendered["Deployment/karpenter"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    env = {item["name"]: item.get("value") for item in container["env"]}
    gates = dict(item.split("=") for item in env["FEATURE_GATES"].split(","))
    assert {name: gates[name] for name in ("StaticCapacity", "ReservedCapacity", "NodeOverlay")} == {
        "StaticCapacity": "true",
        "ReservedCapacity": "true",
        "NodeOverlay": "true",
    }
    assert env["CLUSTER_NAME"] == "specdecode"
    assert env["INTERRUPTION_QUEUE"] == "specdecode"
    assert env["IGNORE_DRA_REQUESTS"] == "true"
    assert "ENABLE_ZONAL_SHIFT" not in env
    values = templates.charts()["karpenter"]["Values"]
    assert container["resources"] == values["controller"]["resources"]
    assert deployment["spec"]["replicas"] == values["replicas"]


def test_the_service_account_is_the_one_that_the_role_trusts(
    rendered: dict[str, Manifest], templates: Templates
) -> None:
    """Name, namespace and annotation of the controller's service account are those of the role's trust policy."""
    account = rendered[f"ServiceAccount/{SERVICE_ACCOUNT}"]
    assert account["metadata"]["namespace"] == NAMESPACE
    values = templates.charts()["karpenter"]["Values"]
    assert account["metadata"]["annotations"] == values["serviceAccount"]["annotations"]
    spec = rendered["Deployment/karpenter"]["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == SERVICE_ACCOUNT
    role = account["metadata"]["annotations"][ROLE_ANNOTATION].rpartition("/")[2]
    (trust,) = (
        properties["AssumeRolePolicyDocument"]["Statement"][0]["Condition"]["StringEquals"]
        for name, properties in templates.properties("AWS::IAM::Role").items()
        if name.endswith(f"/{role}")
    )
    (condition,) = (
        json.dumps(resource) for _, name, resource in templates.resources() if name == trust.partition(".")[0]
    )
    assert f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}" in condition


def test_every_value_is_one_of_the_charts(upstream: Upstream, templates: Templates) -> None:
    """No value of ours is unknown to the chart: Helm would take it and do nothing."""
    known = yaml.safe_load(upstream.text("karpenter", f"{CHART}/values.yaml"))
    assert unknown(templates.charts()["karpenter"]["Values"], known) == []


def test_the_double_takes_no_value_that_the_chart_lacks(upstream: Upstream) -> None:
    """The rehearsal's list of the chart's values has none that the chart does not read."""
    known = set(yaml.safe_load(upstream.text("karpenter", f"{CHART}/values.yaml")))
    read = upstream.tree("karpenter", f"{CHART}/templates")
    text = "".join(path.read_text() for path in sorted(Path(read).iterdir()))
    assert {name for name in charts._KARPENTER_VALUES if name not in known and f".Values.{name}" not in text} == set()


def test_the_double_places_the_controller_as_the_chart_does(rendered: dict[str, Manifest]) -> None:
    """Affinity and tolerations of the rehearsal's Karpenter are those of the rendered chart."""
    spec = rendered["Deployment/karpenter"]["spec"]["template"]["spec"]
    assert spec["affinity"]["nodeAffinity"] == charts._CONTROLLER_AFFINITY["nodeAffinity"]
    (apart,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (own,) = charts._CONTROLLER_AFFINITY["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == own["topologyKey"]
    assert own["labelSelector"]["matchLabels"].items() <= apart["labelSelector"]["matchLabels"].items()
    assert spec["tolerations"] == charts._CRITICAL_ONLY


OF_AN_UPGRADE = {"--install", "--reuse-values", "--take-ownership"}
"""`helm template` has none of them."""


@pytest.mark.parametrize("source", ["karpenter-1.8.1", "karpenter-1.9.2", "karpenter-1.13.1", "karpenter"])
def test_every_printed_line_works_on_a_karpenter_of_theirs(
    upstream: Upstream,
    helm: Path,
    tmp_path: Path,
    shared_double: Double,  # noqa: F811
    source: str,
) -> None:
    """The lines that preflight and the page print, with the chart of that version: preflight takes what they make."""
    version = upstream.revision(source).removeprefix("v")
    there = deployment(f"controller:{version}", gates="")
    of_crds = crd(definition("template"), [there]).fix
    page = [line for _, line in printed.of_pages() if line.startswith("helm ") and f"--version {version} " in line]
    assert page or source != "karpenter"

    def template(line: str) -> list[Manifest]:
        _, _, *words = shlex.split(line)
        for chart in ("karpenter", "karpenter-crd"):
            if f"{CHARTS}/{chart}" in words:
                words[words.index(f"{CHARTS}/{chart}")] = str(upstream.tree(source, f"charts/{chart}"))
        given = [word for word in words if word not in OF_AN_UPGRADE]
        command = [helm, "template", *given, "--set", "settings.clusterName=theirs"]
        done = subprocess.run(command, capture_output=True, text=True, env={"HOME": str(tmp_path)}, check=False)
        assert done.returncode == 0, done.stderr
        return [obj for obj in yaml.safe_load_all(done.stdout) if obj]

    for line in (controller(FACTS_THERE, [there]).fix, *page):
        (made,) = (obj for obj in template(line) if obj["kind"] == "Deployment")
        made["spec"]["template"]["spec"]["containers"][0]["image"] = f"controller:{version}"  # the release writes it in
        assert controller(FACTS_THERE, [made]).verdict == "ok", line
    (pool,) = template(of_crds)
    assert crd(pool, []).verdict == "ok"

    # The CRDs that came with the controller's chart have no owner.
    pool["metadata"].pop("labels", None)
    shared_double.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", pool)
    access = ["--kube-apiserver", shared_double.url, "--kube-ca-file", str(shared_double.ca_file)]
    access += ["--kube-token", shared_double.token, "--dry-run=server"]
    _, *words = shlex.split(
        of_crds.replace(f"{CHARTS}/karpenter-crd", str(upstream.tree(source, "charts/karpenter-crd")))
    )
    for given, taken in ((words, True), ([word for word in words if word != "--take-ownership"], False)):
        done = subprocess.run([helm, *given, *access], capture_output=True, text=True, env={"HOME": str(tmp_path)})
        assert (done.returncode == 0, "invalid ownership metadata" in done.stderr) == (taken, not taken), done.stderr
