"""The opt-in neuron-monitor beside a server: complete, harmless, and nothing of it where nobody asked."""

import json
import subprocess

import pytest
from specdecode import names
from specdecode.experiment import Engine, load_engine, load_preset
from specdecode.experiment import capacity as node
from specdecode.experiment.sizing import arms_at_once
from specdecode.manifests import all_objects, serving

from tests import kubernetes_schema
from tests.plans import plan_for
from tests.rehearsal.kubernetes.conftest import double, kubectl, kubectl_binary, shared_double  # noqa: F401 (fixtures)

from .test_policies import openings

ON = {"serving.neuron_metrics": True}


def plan_of(overrides):
    return plan_for(load_preset("qwen3-32b", overrides=overrides))


def template_of(plan, ctx):
    (deployment, service) = serving(plan, plan.waves[0].arms[1], ctx)
    return deployment, service, deployment["spec"]["template"]


def test_nothing_of_it_by_default(ctx):
    text = json.dumps([obj for obj in all_objects(plan_of({}), ctx) if obj["kind"] != "NetworkPolicy"])
    assert "neuron-m" not in text and "shareProcessNamespace" not in text
    assert names.SERVICE_ACCOUNTS["monitored"] not in text
    assert not [w for w in plan_of({}).warnings if "neuron" in w]


def test_the_server_is_the_same_but_for_its_neighbour(ctx):
    _, _, off = template_of(plan_of({}), ctx)
    deployment, service, on = template_of(plan_of(ON), ctx)
    kubernetes_schema.validate(deployment)
    server, monitor = on["spec"]["containers"]
    assert [server] == off["spec"]["containers"]
    assert on["spec"]["resourceClaims"] == off["spec"]["resourceClaims"]
    assert [v for v in on["spec"]["volumes"] if not v["name"].startswith("monitor-")] == off["spec"]["volumes"]
    assert monitor["name"] == "neuron-monitor" and monitor["image"] == server["image"]
    assert monitor["resources"]["claims"] == server["resources"]["claims"], "else it has no devices to look at"
    assert "shareProcessNamespace" not in on["spec"], "by /proc the engine would read the monitor's token"
    assert monitor["securityContext"] == server["securityContext"]
    assert not {"ports", "readinessProbe", "startupProbe", "livenessProbe"} & monitor.keys()
    own = on["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= own.items()
    assert deployment["spec"]["selector"]["matchLabels"].items() <= own.items()
    assert "--variant SD" in monitor["command"][2]


def test_it_may_publish_and_reach_aws_where_other_servers_may_not(ctx):
    for overrides, account, ports in (({}, "serving", set()), (ON, "monitored", {53, 443})):
        _, _, template = template_of(plan_of(overrides), ctx)
        assert template["spec"]["serviceAccountName"] == names.SERVICE_ACCOUNTS[account]
        ways = openings(template["metadata"]["labels"], "egress")
        assert {port["port"] for way in ways for port in way["ports"]} == ports
        (way,) = openings(template["metadata"]["labels"], "ingress")
        assert [port["port"] for port in way["ports"]] == [names.SERVE_PORT]


def test_the_plan_says_what_it_costs():
    (warning,) = [text for text in plan_of(ON).warnings if "support" not in text]
    assert "neuron_metrics" in warning and "nobody has shown" in warning


def test_its_requests_count():
    """A server's CPUs so chosen that two fit exactly, without a monitor."""
    engine, experiment = load_engine("0.9.1-sdk2.26.1"), load_preset("qwen3-32b")
    spare = experiment.shape.cpu - node.RESERVED_CPU - engine.resources.benchmark.cpu
    serving = engine.resources.serving.model_copy(update={"cpu": spare / 2 - 0.1, "cpu_per_device": None})
    tight = engine.model_copy(update={"resources": engine.resources.model_copy(update={"serving": serving})})
    tight = Engine.model_validate(tight.model_dump())
    assert arms_at_once(experiment, tight) == 2
    assert arms_at_once(load_preset("qwen3-32b", overrides=ON), tight) == 1


@pytest.mark.parametrize(("fetched", "ran"), [("exit 69", False), ("exit 65", False), ("true", True)])
def test_its_container_stays_whatever_happens(tmp_path, ctx, fetched, ran):
    _, _, template = template_of(plan_of(ON), ctx)
    script = template["spec"]["containers"][1]["command"][2]
    python = f'case " $* " in *" -c "*) {fetched};; *) echo "$0 $*" >> ran; exit 74;; esac'
    for name, text in (("python3", python), ("sleep", 'echo "stays $1"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "BUNDLE_URI": "s3://b/k", "POD_IP": "127.0.0.1"}
    ended = subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "stays infinity\n")
    assert (tmp_path / "ran").exists() is ran
