"""The winner of a run as what one deploys: its text, and that a Kubernetes API takes it."""

import json
from pathlib import Path

import pytest
import yaml
from specdecode import names
from specdecode.analysis import compare
from specdecode.analysis.report import write_report
from specdecode.analysis.results.run_context import Served
from specdecode.cli import objects
from specdecode.cli.report_sources import find
from specdecode.cli.runs_deployment import Deployment
from specdecode.experiment import Capacity, load_preset, preset_names

from tests.plans import plan_for
from tests.rehearsal.kubernetes.conftest import double, kubectl, kubectl_binary, shared_double  # noqa: F401 (fixtures)
from tests.specdecode.analysis.simulate import context, run
from tests.specdecode.cli import calling

ARTIFACT = "s3://bucket/compiled/abc/"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the flagship preset, simulated, whose speculative arm wins."""
    cases = ["repeat-line", "count"]
    tested = load_preset("qwen3-32b", overrides={"workload.cases": cases, "workload.requests": 4})
    served = tuple(
        Served(variant=name, recipe=f"exec vllm serve models/{name}\n", artifact=ARTIFACT) for name in ("base", "sd")
    )
    records = run(tested, acceptance=dict.fromkeys(cases, 0.9), draft_cost=0.02)
    found = compare(experiment=tested, records=records, context=context(served=served))
    place = tmp_path_factory.mktemp("winner")
    write_report(found, place)
    return place


def call(*words: object, code: int = 0) -> str:
    result = calling.call("winner", *words, code=code)
    return result.stdout if code == 0 else result.stderr


def test_it_is_the_recommended_arm_and_nothing_of_the_run_is_on_it(folder: Path) -> None:
    printed = call(folder)
    deployment, service = yaml.safe_load_all(printed)
    own = {"app.kubernetes.io/name": "qwen3-32b-sd", "app.kubernetes.io/part-of": "qwen3-32b"}
    pod = deployment["spec"]["template"]
    for labels in (
        deployment["metadata"]["labels"], deployment["spec"]["selector"]["matchLabels"], pod["metadata"]["labels"],
        service["metadata"]["labels"], service["spec"]["selector"],
    ):  # fmt: skip
        assert labels == own
    assert "ownerReferences" not in deployment["metadata"]
    assert "run-1" not in yaml.safe_dump([deployment, service])
    assert pod["spec"]["nodeSelector"] == {"node.kubernetes.io/instance-type": "trn2.48xlarge"}
    (main,) = pod["spec"]["containers"]
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= main.keys()
    assert "--speculative-config" in str(main) or "speculative" in str(main)
    assert pod["spec"]["resourceClaims"]
    given = [each["valueFrom"] for each in main["env"] if "valueFrom" in each]
    secrets = [each["secretKeyRef"]["name"] for each in given if "secretKeyRef" in each]
    assert secrets == ["qwen3-32b-sd"]


def test_it_serves_what_the_run_served_and_nothing_else(tmp_path: Path) -> None:
    """Of a run that compiled on CPU nodes, where the arm's artifact loaded and where the node compiled it after all."""
    changes = {"workload.cases": ["repeat-line"], "workload.requests": 4, "compile.on": "cpu"}
    tested = load_preset("qwen3-32b", overrides=changes)
    (arm,) = (arm for arm in plan_for(tested).waves[0].arms if arm.variant == "sd")
    records = run(tested, acceptance={"repeat-line": 0.9}, draft_cost=0.02)
    for made, other in ((arm.fingerprint, arm.fallback), (arm.fallback, arm.fingerprint)):
        models = {f"s3://bucket/{model.prefix}": "b" * 64 for model in tested.models_of(tested.variant("sd"))}
        artifact = f"s3://bucket/compiled/{made}/"
        served = (Served(variant="sd", recipe="x", artifact=artifact, artifact_sha256="a" * 64, models=models),)
        write_report(compare(experiment=tested, records=records, context=context(served=served)), tmp_path)
        printed = call(tmp_path, "--arm", "sd")
        assert f"compiled/{made}" in printed and other not in printed
        assert printed.count("a" * 64) == 2, "in its head, and in what the server compares"
        assert len(models) == 2 and printed.count("b" * 64) == 4, "of both models too"


def test_the_head_says_what_must_be_done_first(folder: Path) -> None:
    head = [line for line in call(folder).splitlines() if line.startswith("#")]
    assert any("kubectl create secret generic qwen3-32b-sd --namespace specdecode" in line for line in head)
    assert any(ARTIFACT in line for line in head)
    assert any("scaling are yours" in line for line in head)


def test_the_head_has_the_table_over_the_load_as_vllm_takes_it(folder: Path, tmp_path: Path) -> None:
    ranges = [{"first": 1, "last": 4, "k": 5, "variant": "sd"}, {"first": 5, "last": 8, "k": 0, "variant": "base"}]
    report = json.loads((folder / "report.json").read_text())
    report["schedule"] = [{"draft": "d", "ranges": ranges, "measured_to": 8, "engine_takes_it": True}]
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert '"num_speculative_tokens_per_batch_size": [[1, 4, 5], [5, 8, 0]]' in call(tmp_path / "report.json")


def test_name_replicas_and_arm_are_the_users(folder: Path) -> None:
    items = json.loads(call(folder, "--arm", "base", "--name", "chat", "--replicas", "3", "--json"))["items"]
    assert [item["metadata"]["name"] for item in items] == ["chat", "chat"]
    assert items[0]["spec"]["replicas"] == 3
    assert "speculative" not in json.dumps(items[0]["spec"]["template"]["spec"]["containers"][0]["command"])


def test_its_claim_is_the_template_that_the_deployment_has(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find(str(folder), deployment=Deployment(stack="", region=None, profile=None))
    monkeypatch.setattr("specdecode.cli.report_sources.find", lambda run, **more: found)
    monkeypatch.setattr(Deployment, "capacity", Capacity(claims="-topology"))
    assert "resourceClaimTemplateName: trn2-8dev-lnc2-topology\n" in call("run-1")


def test_an_unknown_arm_is_refused(folder: Path) -> None:
    assert "has no arm other: base, sd" in call(folder, "--arm", "other", code=2)


@pytest.mark.parametrize("preset", preset_names())
def test_kubectl_accepts_every_arm_of_every_preset(preset: str, double, kubectl) -> None:  # noqa: F811
    if double.request("GET", f"/api/v1/namespaces/{names.NAMESPACE}")[0] == 404:
        double.namespace(names.NAMESPACE)
    experiment = load_preset(preset, capacity=Capacity(price_per_node_hour=1))
    arms = [variant.name for variant in experiment.variants]
    made = [
        obj
        for number, arm in enumerate(arms)
        for obj in objects.objects_of(experiment, arm, name=f"arm-{number}", replicas=2)
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": made})
    said = kubectl("apply", "--dry-run=server", "-f", "-", stdin=text).stdout.splitlines()
    assert len(said) == 2 * len(arms)
    assert all(line.endswith("created (server dry run)") for line in said)
    assert "production" not in text  # the run id that stands in for one
