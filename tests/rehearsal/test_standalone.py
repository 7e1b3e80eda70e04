"""`specdecode manifests --complete` as a user gets it: a bare cluster, a bucket, kubectl, and the lines of its
comments.
"""

import base64
import json
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from specdecode.experiment import load_preset
from specdecode.names import NAMESPACE

from constructs_lib.storage.bundle import build_bundle
from rehearsal import imports, servers, tools
from rehearsal.processes import Processes
from tests.patience import PATIENCE_S
from tests.rehearsal.kubernetes.conftest import Double, kubectl_binary, start  # noqa: F401 (fixture)

BUCKET = "one-of-the-users"
SET = {
    "workload.rounds": 1,
    "workload.cases": ["repeat-line"],
    "workload.requests": 4,
    "workload.output_tokens": 16,
    "workload.concurrency": 2,
    "workload.streams_per_client": 1,
}
"""Enough for every step, with two clients; too little to measure anything."""
AWS = """\
#!{python}
# `aws s3 sync s3://BUCKET/PREFIX FOLDER`: all that the comments need of the AWS CLI
import pathlib, sys
import boto3
from botocore.config import Config
_, _, _, uri, folder = sys.argv
bucket, _, prefix = uri.removeprefix("s3://").partition("/")
s3 = boto3.client("s3", endpoint_url="{endpoint}", config=Config(s3={{"addressing_style": "path"}}))
for item in s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]:
    path = pathlib.Path(folder) / item["Key"].removeprefix(prefix)
    path.parent.mkdir(parents=True, exist_ok=True)
    s3.download_file(bucket, item["Key"], str(path))
"""


@dataclass
class Bare:
    """A cluster with the Neuron DRA driver and nothing of ours, and a bucket."""

    double: Double
    s3: servers.Services
    folder: Path
    kubectl: Path

    def tools(self) -> dict[str, str]:
        """The environment of a user's shell: kubectl, aws and specdecode on the PATH, and a sleep that is short."""
        own = self.folder / "bin"
        own.mkdir(exist_ok=True)
        access = " ".join(self.double.access)
        programs = {
            "kubectl": f'#!/bin/sh\nexec {self.kubectl} {access} --cache-dir {self.folder / "cache"} "$@"\n',
            "aws": AWS.format(python=sys.executable, endpoint=self.s3.endpoint),
            "sleep": "#!/bin/sh\nexec /bin/sleep 0.3\n",
            "specdecode": f'#!/bin/sh\nexec {Path(sys.executable).with_name("specdecode")} "$@"\n',
        }
        for name, text in programs.items():
            (own / name).write_text(text)
            (own / name).chmod(0o755)
        return tools.environment(tools.aws_environment(self.s3.endpoint)) | {
            "PATH": f"{own}:{os.environ['PATH']}",
            "HOME": str(self.folder),
        }

    def secret(self, name: str, **entries: str) -> None:
        data = {key: base64.b64encode(text.encode()).decode() for key, text in entries.items()}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
        self.double.ok("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", body)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, kubectl_binary: Path) -> Iterator[Bare]:  # noqa: F811
    tools.check()
    folder = tmp_path_factory.mktemp("bare")
    with (
        Processes(folder=folder / "processes", root=tools.ROOT) as processes,
        socket.create_server(("127.0.0.1", 0)) as bound,
    ):
        endpoint = f"http://127.0.0.1:{bound.getsockname()[1]}"
        own = ("--image-path", str(tools.IMAGE), "--aws-endpoint", endpoint, "--backoff", "1")
        double = start(folder / "double", *own, "--system-nodes", "1", "--system-instance-type", "trn2.48xlarge")
        try:
            aws = servers.start_aws(processes, bound, url=double.url, ca_file=double.ca_file, token=double.token)
            for name in ("neuron-dra-driver", "neuron-healthcheck-system"):
                double.namespace(name)
            parts = {"draDriver": {"enabled": True}, "devicePlugin": {"enabled": False}, "npd": {"enabled": False}}
            double.helm("neuron-helm-chart", "1.10.0", namespace="neuron-dra-driver", **parts)
            yield Bare(double=double, s3=aws, folder=folder, kubectl=kubectl_binary)
        finally:
            double.stop()


def shell(script: str, bare: Bare, *, stdin: str = "", seconds: float = PATIENCE_S) -> str:
    """Run it as the user does. Returns its output."""
    done = subprocess.run(
        ["bash", "-e"] if not stdin else ["bash", "-ec", script],
        input=stdin or script,
        env=bare.tools(),
        cwd=bare.folder,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{_pods(bare)}"
    return done.stdout


def _pods(bare: Bare) -> str:
    """The places where a person would look next."""
    told = []
    for pod in bare.double.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]:
        name = pod["metadata"]["name"]
        told.append(f"{name}: {json.dumps(pod['status'])[:1500]}")
        for container in [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]:
            query = f"log?container={container['name']}"
            log = bare.double.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/{query}")[1]
            told.append(textwrap.indent(str(log)[-1500:], "    "))
    return "\n".join(told)


@pytest.mark.slow
def test_what_the_comments_say_brings_the_answer(bare: Bare) -> None:
    bundle = build_bundle()
    s3 = bare.s3.client("s3")
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
    s3.upload_file(str(bundle.path), BUCKET, "bundle.zip")
    imports.upload(load_preset("rehearsal"), s3=s3, bucket=BUCKET)
    given = " ".join(f"--set '{path}={json.dumps(value)}'" for path, value in SET.items())
    options = f"--bucket {BUCKET} --bundle-uri s3://{BUCKET}/bundle.zip --bundle-sha256 {bundle.sha256} --run-id mine"
    printed = shell(f"specdecode manifests rehearsal --complete {given} {options}\n", bare)
    assert "YOUR-" not in printed
    (bare.folder / "run.yaml").write_text(printed)

    shell("kubectl apply -f -", bare, stdin=printed)
    assert bare.double.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"] == []
    bare.secret("specdecode-aws", config="[default]\naws_access_key_id = test\naws_secret_access_key = test\n")
    bare.secret("specdecode-api-key", **{"api-key": "of-the-user"})
    assert "kubectl -n specdecode create secret generic specdecode-api-key --from-literal=api-key=" in printed

    said = shell("sed -n 's/^# [$] //p' run.yaml | bash -e\n", bare, seconds=4 * PATIENCE_S)
    assert "sd against base" in said and "repeat-line" in said
    answer = json.loads(shell("specdecode report results/mine --json\n", bare))
    assert answer["run_id"] == "mine" and answer["answer"] in " ".join(said.split())
    assert [(arm["variant"], arm["completed"], arm["failed"]) for arm in answer["arms"]] == [
        ("base", 4, 0),
        ("sd", 4, 0),
    ]
    ((pair,), (case,)) = answer["pairs"], answer["pairs"][0]["cases"]
    assert (pair["variant"], pair["baseline"], case["case"]) == ("sd", "base", "repeat-line")
    assert case["comparable"] and case["headline"]["ratio"] > 0 and case["equality"]["compared"] == 4
    raw = bare.folder / "results" / "mine" / "raw"
    for variant in load_preset("rehearsal").variants:
        found = [json.loads(line) for file in raw.glob(f"{variant.name}/*.jsonl") for line in file.open()]
        sent = sorted((each["client"], each["index"]) for each in found if not each["warmup"])
        assert sent == [(0, 0), (0, 2), (1, 1), (1, 3)], "each client its share of one Indexed Job"
    assert bare.double.get(f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims")["items"] == []

    shell("kubectl delete namespace specdecode --wait=false\n", bare)
