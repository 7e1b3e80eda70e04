"""The attacker's rehearsal: what somebody tries who may start runs, and what of it arrives. Writes docs/security.md.

Not part of `make test` (it takes some three minutes). Run it with

    .venv/bin/pytest tests/end_to_end/attack.py
"""

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError
from specdecode import names, s3_keys
from specdecode.experiment import Experiment, load_engine, load_preset
from specdecode.manifests.naming import object_name
from specdecode.planning import needed_prefixes, read_inventory
from specdecode.runs.state import RunState

from rehearsal import tools
from rehearsal.execution import Run
from tests.access import sessions
from tests.access.principals import Deployed
from tests.access.trial import REFUSALS, Caller
from tests.end_to_end.attacker import ARGUMENTS, CONFIG, PROMPTS, SAID, Attacker, document, listening, loaders, redirect
from tests.end_to_end.cloud import SMALL, Cloud, deployed
from tests.network import reaches
from tests.patience import LONG_S
from tests.plans import plan_for
from tests.pods import containers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
BEGIN, END = "<!-- attacks: written by tests/end_to_end/attack.py -->", "<!-- end of attacks -->"
HEAD = ["| experiment | what he tried | answer | what arrived at his server |", "|---|---|---|---|"]
OUTSIDE = "203.0.113.7"
"""Where his server would be, seen from AWS (TEST-NET-3)."""


@pytest.fixture
def attacker(tmp_path: Path) -> Iterator[Attacker]:
    with listening(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with deployed() as running:
        made = Cloud(running)
        yield made
        lines = [*HEAD, *(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in made.rows)]
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text("".join([before, BEGIN, "\n\n", "\n".join(lines), "\n\n", END, after]), "utf-8")


def every_problem(said: str, attacker: Attacker) -> None:
    """The one message has all rules that were broken, and counts every problem of theirs."""
    assert all(f"({rule})" in said for rule in SAID), said
    wrong = len(redirect(attacker)) + len(loaders(attacker)) + 1 + 8 + len(CONFIG) + 1
    counted = re.search(r"([0-9]+) problems in the experiment", said)
    assert counted, said
    assert int(counted[1]) == wrong, said


def nothing_came_of_it(cloud: Cloud, attacker: Attacker) -> str:
    assert attacker.arrived == [] and attacker.marks == []
    assert cloud.workloads() == [] and cloud.running.replicas() == 0
    return "nothing"


def refused(cloud: Cloud, run: Run, attacker: Attacker) -> None:
    end = cloud.ended(run)
    assert (end.status, end.error) == ("FAILED", "InvalidExperiment"), end.cause
    every_problem(end.cause or "", attacker)


WHAT = "another bundle, endpoints, proxies, loaders, `--middleware`, abbreviations, `attn_cls`, `/proc/…` as prompts"


def specdecode(cloud: Cloud, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tools.ROOT / ".venv" / "bin" / "specdecode", *arguments],
        env=tools.environment(tools.aws_environment(cloud.running.services.endpoint)),
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )


def test_by_a_file(cloud: Cloud, attacker: Attacker, tmp_path: Path) -> None:
    path = tmp_path / "attack.yaml"
    path.write_text(yaml.safe_dump(document(attacker)))
    ended = specdecode(cloud, "run", str(path), "--yes")
    assert ended.returncode == 2
    every_problem(" ".join(ended.stderr.split()), attacker)
    cloud.rows.append(("a file", WHAT, "refused by the command line", nothing_came_of_it(cloud, attacker)))


def test_by_overrides(cloud: Cloud, attacker: Attacker) -> None:
    given = document(attacker)
    changes = {
        "serving.env": given["serving"]["env"],
        "serving.extra_args": ARGUMENTS,
        "serving.neuron_config": CONFIG,
        "variants.base.env": loaders(attacker),
        "variants.sd.env": {"https_proxy": attacker.url},
        "workload.cases": [PROMPTS, "count"],
    }
    words = [word for path, value in changes.items() for word in ("--set", f"{path}={json.dumps(value)}")]
    ended = specdecode(cloud, "run", "rehearsal", *words, "--yes")
    assert ended.returncode == 2
    every_problem(" ".join(ended.stderr.split()), attacker)
    cloud.rows.append(("`--set`", "the same", "refused by the command line", nothing_came_of_it(cloud, attacker)))


def test_by_the_console(cloud: Cloud, attacker: Attacker) -> None:
    refused(cloud, cloud.running.start("attack", {"experiment": document(attacker)}), attacker)
    came = nothing_came_of_it(cloud, attacker)
    cloud.rows.append(("the console's input", "the same", "refused by the pipeline (InvalidExperiment)", came))


def test_by_resuming_what_an_older_version_let_in(cloud: Cloud, attacker: Attacker) -> None:
    """The stored experiment of a run from before the rules, or one that somebody put there."""
    plain = load_preset("rehearsal").model_dump(mode="json")
    stored = {**plain, "serving": {**plain["serving"], **document(attacker)["serving"]}}
    stored["variants"][0]["env"], stored["variants"][1]["env"] = loaders(attacker), {"https_proxy": attacker.url}
    stored["workload"]["cases"][0] = PROMPTS
    state = RunState(run_id="old", execution_arn="arn", experiment="rehearsal", started_at="2026-01-01T00:00:00Z")
    s3, bucket = cloud.running.services.client("s3"), cloud.running.bucket
    for name, body in (("experiment.yaml", yaml.safe_dump(stored)), ("state.json", state.model_dump_json())):
        s3.put_object(Bucket=bucket, Key=s3_keys.run_key("old", name), Body=body.encode())
    refused(cloud, cloud.running.start("again", {"resume": "old"}), attacker)
    came = nothing_came_of_it(cloud, attacker)
    cloud.rows.append(("`--resume` of a stored one", "the same", "refused by the pipeline (InvalidExperiment)", came))


def unruled(env: dict[str, str]) -> Experiment:
    """The rehearsal's experiment with `env`, which no rule has seen."""
    experiment = load_preset("rehearsal", overrides=SMALL)
    return experiment.model_copy(update={"serving": experiment.serving.model_copy(update={"env": env})})


def replaced_plan(cloud: Cloud, name: str, env: dict[str, str]) -> Run:
    """A run whose plan is replaced, before anything is compiled, by that of an experiment without rules."""
    cloud.forget("compiled/")
    run = cloud.start(name)
    cloud.until_step(run, "AcquireCapacity")
    experiment = unruled(env)
    engine, s3, bucket = load_engine(experiment.engine), cloud.running.services.client("s3"), cloud.running.bucket
    inventory = read_inventory(s3, bucket=bucket, prefixes=needed_prefixes(experiment, engine))
    plan = plan_for(experiment, inventory=inventory, engine=engine)
    s3.put_object(Bucket=bucket, Key=s3_keys.run_key(run.run_id, "plan.json"), Body=plan.model_dump_json().encode())
    return run


def pods_of(cloud: Cloud, run: Run, component: str) -> list[dict[str, Any]]:
    return cloud.until(lambda: cloud.pods(component), what=f"{component} pods of {run.run_id}")


def test_without_rules_our_variables_win(cloud: Cloud, attacker: Attacker) -> None:
    run = replaced_plan(cloud, "redirect", redirect(attacker))
    for component in ("compile", "serving"):
        for pod in pods_of(cloud, run, component):
            for name, container in containers({"spec": pod["spec"]}).items():
                values = {item["name"]: item.get("value", "") for item in container["env"]}
                assert values["POD_IP"] == "" and values.get("HF_HUB_OFFLINE", "1") == "1"
                if name in ("fetch", "store"):
                    assert not [key for key, value in values.items() if "127.0.0.1" in value or "attacker" in value]
    end = cloud.ended(run)
    assert end.status == "SUCCEEDED", end.cause
    cloud.at_rest()
    came = nothing_came_of_it(cloud, attacker)
    what = "other bundle, endpoints, proxies, address of the pod, in the engine's container alone"
    cloud.rows.append(("rules off", what, "the run succeeds as if they were not there", came))


def test_without_rules_his_code_finds_no_credentials_and_no_way_out(cloud: Cloud, attacker: Attacker) -> None:
    attacker.program("python3")
    attacker.program("vllm")
    image = tools.IMAGE / "bin"
    run = replaced_plan(cloud, "loader", {"PATH": f"{attacker.folder}/bin:{image}:/usr/bin:/bin"})
    compiling = pods_of(cloud, run, "compile")[0]
    serving = pods_of(cloud, run, "serving")[0]
    policies = cloud.listed(f"/apis/networking.k8s.io/v1/namespaces/{names.NAMESPACE}/networkpolicies")
    end = cloud.ended(run)
    assert end.status == "SUCCEEDED", end.cause
    cloud.at_rest()

    assert attacker.marks, "the test's attacker must run where an engine runs, or this shows nothing"
    text = b"".join(attacker.arrived)
    assert attacker.arrived and b"PATH=" in text
    for secret in (
        b"AWS_ROLE_ARN",
        b"AWS_WEB_IDENTITY",
        b"eyJ",
        b"AWS_SECRET",
        b"BUCKET",
        b"BUNDLE",
        b"OPENAI_API_KEY",
    ):
        assert secret not in text, secret
    senders = re.findall(r"^from (\S+)", text.decode(), re.MULTILINE)
    assert {sender.startswith(object_name(run.run_id)) for sender in senders} == {True}
    for pod, engine in ((compiling, "compile"), (serving, "main")):
        for name, container in containers({"spec": pod["spec"]}).items():
            mounts = {mount["name"] for mount in container["volumeMounts"]}
            assert "aws-iam-token" not in mounts and ("aws" in mounts) is (name != engine), (name, mounts)
    labels = serving["metadata"]["labels"]
    assert not any(reaches(policies, labels, OUTSIDE, port) for port in (443, 80, 53, attacker.port))
    labels = compiling["metadata"]["labels"]
    assert not any(reaches(policies, labels, OUTSIDE, port) for port in (80, 53, attacker.port))
    assert not any(reaches(policies, labels, inside, 443) for inside in ("10.0.0.9", "172.20.0.1", "169.254.169.254"))
    came = (
        "variables of the engine's container: no role, no token, no bucket; a server's own key of that wave. On EKS a "
    )
    came += "server's pod reaches nobody, a compile pod public HTTPS alone"
    cloud.rows.append(
        ("rules off", "`PATH` with his `python3` and `vllm`", "his code runs where the engine runs", came)
    )


def own_folders(run: Run, component: str, job: str) -> tuple[str, set[str]]:
    """A key that the pods of `component` write, and those that they read."""
    if component == "staging":  # a Job for each model
        rehearsed = load_preset("rehearsal")
        models = {model for variant in rehearsed.variants for model in rehearsed.models_of(variant)}
        (prefix,) = {
            model.prefix
            for model in models
            if object_name(run.run_id, "stage", model.prefix.removeprefix("models/").rstrip("/")) == job
        }
        return f"{prefix}trial", {f"{prefix}trial"}
    if component == "compile":
        plan = plan_for(load_preset("rehearsal", overrides=SMALL))
        artifact = next(
            f"compiled/{arm.fingerprint}/trial" for arm in plan.compiles_to_do if arm.fingerprint[:8] in job
        )
        return artifact, {artifact}
    key = s3_keys.run_key(run.run_id, "raw", "base", "trial.jsonl")
    return ("", set()) if component == "smoke" else (key, {key})


def test_with_a_pods_session_he_reaches_this_steps_folders_alone(cloud: Cloud) -> None:
    """Whatever code runs in a pod of ours has the keys that lie there: they are taken from the cluster, and tried."""
    cloud.forget("compiled/")
    cloud.forget("models/")
    run = cloud.start("sessions")
    services, bucket = cloud.running.services, cloud.running.bucket
    there = Deployed(places={"bucket": f"arn:aws:s3:::{bucket}", "bucket_name": bucket}, roles={})
    caller = Caller(services, region=services.client("s3").meta.region_name)
    found: dict[str, set[str]] = {}
    for component in ("staging", "compile", "smoke", "benchmark"):
        pod = pods_of(cloud, run, component)[0]
        job = pod["metadata"]["labels"]["job-name"]
        listed = cloud.listed(f"/api/v1/namespaces/{names.NAMESPACE}/secrets")
        (read,) = [secret for secret in listed if secret["metadata"]["name"] == job]
        keys = json.loads(base64.b64decode(read["data"]["credentials.json"]))
        mounted = {m["name"] for one in containers({"spec": pod["spec"]}).values() for m in one["volumeMounts"]}
        assert "aws-iam-token" not in mounted, (
            "EKS adds the volume to a pod that mounts the bucket; no container has it"
        )
        writes, reads = own_folders(run, component, job)
        plan = [s3_keys.run_key(run.run_id, name) for name in ("plan.json", "state.json", "experiment.yaml")]
        others = sessions.reached(caller, there, keys, [*sessions.FOREIGN, *plan])
        assert others == set(), component
        own = sessions.reached(caller, there, keys, reads)
        may = ("read", "write", "delete") if component in ("staging", "compile") else ("read", "write")
        assert own == ({f"{verb} {writes}" for verb in may} if writes else set()), component
        found[component] = own
        for service, method, arguments in (
            ("sts", "assume_role", {"RoleArn": f"arn:aws:iam::{tools.ACCOUNT}:role/x", "RoleSessionName": "trial"}),
            ("iam", "list_roles", {}),
            ("secretsmanager", "list_secrets", {}),
        ):
            caller.become(keys)
            with pytest.raises(ClientError) as refused_by:
                getattr(caller.client(service), method)(**arguments)
            assert refused_by.value.response["Error"]["Code"] in REFUSALS
    end = cloud.ended(run)
    assert end.status == "SUCCEEDED", end.cause
    cloud.at_rest()
    what = "with the keys in the pods of staging, compile, smoke test and benchmark: other runs' results, other "
    what += "artifacts and models, the plan of this run, other roles"
    cloud.rows.append(
        ("rules off", what, "AccessDenied; the folder of that step of that run alone", "nothing of others")
    )


def test_the_rules_are_what_was_switched_off() -> None:
    """The same variables in an experiment that goes through them are refused."""
    with pytest.raises(ValueError, match="settable-variable"):
        load_preset("rehearsal", overrides={"serving.env": {"PATH": "/x"}})
    assert unruled({"PATH": "/x"}).serving.env == {"PATH": "/x"}
