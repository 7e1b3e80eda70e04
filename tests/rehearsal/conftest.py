"""One short rehearsal for many tests: a run that succeeds, then a run whose engine is killed."""

import base64
import io
import json
import os
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from specdecode.cli.runs_deployment import Execution
from specdecode.experiment import load_preset
from specdecode.manifests import RenderContext, Rights, benchmark
from specdecode.names import HF_TOKEN_SECRET, NAMESPACE

from rehearsal import tools
from rehearsal.console import Progress
from rehearsal.processes import processes_naming
from rehearsal.rehearse import rehearsal
from tests.access import sessions, trial
from tests.access.principals import PODS
from tests.canaries import HUGGING_FACE
from tests.conftest import STACKS
from tests.patience import PATIENCE_S
from tests.plans import plan_for
from tests.templates import Templates

from .came_out import came_out

SMALL = {"workload.cases": ["repeat-line", "library-docs"], "workload.requests": 4, "workload.output_tokens": 48}
"""Enough to exercise every step; too little to measure anything."""
MARKER = "C4nary that may be seen"
"""Text in the description of the first run's experiment. Where it is found, the tests do look."""
LONG = SMALL | {"workload.requests": 400, "workload.output_tokens": 512}
"""Load that lasts until the engine is killed."""


@dataclass(kw_only=True)
class Rehearsed:
    """The observations of a rehearsal, while it ran and after it."""

    log: str = ""
    succeeded: Execution | None = None
    failed: Execution | None = None
    folder: Path | None = None
    """The successful run's folder, as it was downloaded."""
    diagnostics: Path | None = None
    """The failed run's folder."""
    executed: dict[str, str] | None = None
    """State machine definition and function code as the emulator executed them: name -> text or SHA-256."""
    arns: dict[str, str] | None = None
    """Logical id -> ARN of the stack's functions, as CloudFormation deployed them."""
    metrics: list[dict[str, Any]] | None = None
    dashboards: list[str] | None = None
    assembly: Path | None = None
    replicas: dict[str, int] | None = None
    """Size of the NodePool after each run."""
    claims: list[str] | None = None
    """Instances that still existed a while after the failed run had ended."""
    left: list[int] | None = None
    tried: trial.Found | None = None
    """Calls of AWS that were made with the pods' own credentials."""
    reached: dict[str, set[str]] | None = None
    """Role -> the objects, its own and those of others, that a session of the role reached. Pods get such sessions."""
    strangers: set[str] | None = None
    """Wrong tokens that were accepted as a pod's."""
    came_out: dict[str, bytes] | None = None
    """Everything that both runs left for a reader."""
    keys: set[str] | None = None
    """The API keys that the servers of the second run demanded."""
    sessions: set[str] | None = None
    """Secret parts of the sessions with which its pods acted in AWS."""
    administrator: str = ""
    """The bearer token of the cluster's administrator."""


@pytest.fixture(scope="session")
def rehearsed(tmp_path_factory):
    tools.check()
    out = Rehearsed(replicas={})
    text = io.StringIO()
    experiment = load_preset("rehearsal")
    target = tmp_path_factory.mktemp("results")
    with rehearsal(Progress(console=Console(file=text, width=160))) as running:
        running.deploy()
        running.import_models(experiment)

        running.services.client("secretsmanager").create_secret(Name=HF_TOKEN_SECRET, SecretString=HUGGING_FACE)
        run = running.start("first", {"experiment": "rehearsal", "set": SMALL | {"description": MARKER}})
        out.succeeded = run.follow(running.progress)
        out.folder = running.download(run.run_id, to=target)
        out.replicas["after success"] = running.replicas()
        out.executed = _executed(running, run.arn)
        out.arns = _function_arns(running)
        watch = running.services.client("cloudwatch")
        out.metrics = watch.list_metrics(Namespace="Qwen/LLMPerf")["Metrics"]
        out.dashboards = [entry["DashboardName"] for entry in watch.list_dashboards()["DashboardEntries"]]
        out.tried, out.strangers, out.reached = _tried(running)

        run = running.start("second", {"experiment": "rehearsal", "set": LONG})
        killer = _Killer(running)
        out.failed = run.follow(running.progress, watching=killer)
        out.keys, out.sessions = killer.keys, killer.sessions
        out.diagnostics = running.download(run.run_id, to=target)
        out.replicas["after failure"] = running.replicas()
        deadline = time.monotonic() + PATIENCE_S
        while (claims := running.claims()) and time.monotonic() < deadline:
            time.sleep(0.5)
        out.claims = claims

        out.came_out = came_out(running)
        out.administrator = running.services.kubernetes_token

        running.destroy()
        out.assembly = tmp_path_factory.mktemp("assembly") / "cdk.out"
        shutil.copytree(running.deployment.assembly, out.assembly)
    out.left = running.left()
    out.log = text.getvalue()
    yield out
    running.forget()


class _Killer:
    """Kills the serving engines once the benchmark is well under way. `keys` are the API keys of the engines,
    `sessions` the sessions of the pods.
    """

    def __init__(self, running):
        self.running, self.folder = running, running.processes.folder
        self.seen, self.done, self.keys, self.sessions = 0, False, set(), set()

    def __call__(self, state, message):
        if state != "Benchmark" or self.done:
            return
        self.seen += 1
        if self.seen < 5:
            return
        secrets = self.running.kubernetes.request("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets")["items"]
        found = [(name, base64.b64decode(data).decode()) for each in secrets for name, data in each["data"].items()]
        sessions = [json.loads(text) for name, text in found if name == "credentials.json"]
        self.sessions = {each[part] for each in sessions for part in ("SecretAccessKey", "SessionToken")}
        self.keys = {text for name, text in found if name not in ("config", "credentials.json")}
        for pid in processes_naming(self.folder):
            if b"vllm\0serve" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                self.done = True


def _tried(running):
    folder = running.deployment.assembly
    templates = Templates({stack: json.loads((folder / f"{stack}.template.json").read_text()) for stack in STACKS})
    trial.prepare(running.services)
    there = trial.from_cloud(running.services, templates)
    tried = trial.try_everything(running.services, there, principals=PODS, calibrate=False)
    caller = trial.Caller(running.services, region=there.places["region"])
    ctx = RenderContext(
        run_id="own",
        bucket=there.places["bucket_name"],
        bundle_uri=f"s3://{there.places['assets']}/{there.places['bundle']}",
        bundle_sha256="0" * 64,
        region=there.places["region"],
    )
    rights = {
        "staging": Rights(reads=("models/own@main/*",), writes=("models/own@main/*",)),
        "compile": Rights(reads=("compiled/own/*", "models/own@main/*"), writes=("compiled/own/*",)),
        "results": benchmark(plan := plan_for(load_preset("rehearsal")), plan.waves[0], ctx).rights,
    }
    reached = {
        role: sessions.reached(caller, there, sessions.given(caller, there, role, its, ctx), sessions.FOREIGN + OWN)
        for role, its in rights.items()
    }
    return tried, trial.strangers_let_in(running.services, there), reached


OWN = (
    "models/own@main/model.safetensors",
    "compiled/own/model.pt",
    "runs/own/raw/base/count.jsonl",
    "runs/own/servers.json",
    "runs/own/plan.json",
    "runs/own/state.json",
)
"""Objects in folders of the run `own`. A step of its pods writes some of them."""


def _function_arns(running):
    stack = running.services.client("cloudformation").describe_stack_resources(StackName="SpecDecodeStack")
    functions = running.services.client("lambda")
    return {
        resource["LogicalResourceId"]: functions.get_function(FunctionName=resource["PhysicalResourceId"])[
            "Configuration"
        ]["FunctionArn"]
        for resource in stack["StackResources"]
        if resource["ResourceType"] == "AWS::Lambda::Function"
    }


def _executed(running, execution):
    states = running.services.client("stepfunctions")
    machine = states.describe_state_machine_for_execution(executionArn=execution)
    functions = running.services.client("lambda")
    code = {
        function["FunctionName"]: function["CodeSha256"]
        for page in functions.get_paginator("list_functions").paginate()
        for function in page["Functions"]
    }
    return {"definition": machine["definition"], **code}
