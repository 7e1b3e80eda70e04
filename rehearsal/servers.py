"""The two servers of a rehearsal: the Kubernetes API double with its node, and the embedded AWS."""

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from rehearsal import tools
from rehearsal.processes import Child, Processes

START_S = 300.0
"""Longest time in seconds that a server may take to start, on a busy machine."""

ANSWER_S = 120.0
"""Longest time in seconds that the embedded AWS may take to answer a call."""

CLUSTER = "specdecode"
"""The EKS cluster's name (the default of `clusterName`), for which the Lambdas' tokens are signed."""

ISSUER = f"https://oidc.eks.{tools.REGION}.amazonaws.com/id/REHEARSAL"
"""OIDC issuer of the cluster. The double signs the pods' tokens with this name, and the emulator's IAM trusts it."""

BACKOFF_S = 1.0
"""Seconds before the first retry of a failed pod or container (10 in a real cluster)."""

WAIT_SCALE = 0.02
"""Factor for the waits of the state machine: a Wait of 60 s takes 1.2 s. Nothing takes hours here."""


@dataclass(frozen=True, kw_only=True)
class Services:
    """Addresses and credentials of the servers that run."""

    endpoint: str
    kubernetes_url: str
    kubernetes_ca: Path
    kubernetes_token: str
    children: tuple[Child, ...]

    def client(self, service: str, *, config: Config | None = None) -> Any:
        """A boto3 client of the embedded AWS, as its administrator. `config` adds to the usual configuration."""
        here = Config(
            proxies={},
            retries={"max_attempts": 2},
            s3={"addressing_style": "path"},
            connect_timeout=5,
            read_timeout=ANSWER_S,
        )
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=tools.REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - the emulator's well-known root credentials
            config=here.merge(config) if config else here,
        )

    def check(self) -> None:
        """Raise ChildFailed if one of them has ended."""
        for child in self.children:
            child.check()


def start(processes: Processes, *, node_delay_s: float) -> Services:
    """Start both servers and wait until they answer. The system chooses the ports, so rehearsals can run side by side.

    The emulator's port is bound first, since the double must know it. The emulator starts last, since it must know the
    double's address. Raises ChildFailed if one of them does not start.
    """
    with socket.create_server(("127.0.0.1", 0)) as bound:
        double = processes.start(
            "kubernetes",
            [
                *(tools.CLOUD_PYTHON, "-m", "rehearsal.kubernetes", "--port", "0"),
                *("--state-dir", processes.folder / "kubernetes", "--image-path", tools.IMAGE),
                *(f"--image={reference}={folder}" for reference, folder in tools.IMAGES.items()),
                *("--aws-endpoint", _endpoint(bound), "--region", tools.REGION, "--node-delay", str(node_delay_s)),
                *("--cluster-name", CLUSTER, "--oidc-issuer", ISSUER, "--backoff", str(BACKOFF_S), "--ec2"),
            ],
            environment=tools.environment(),
        )
        cluster = _await(double, lambda: _ready(processes.folder / "kubernetes" / "ready.json"))
        aws = start_aws(
            processes, bound, url=cluster["url"], ca_file=Path(cluster["ca_file"]), token=cluster["admin_token"]
        )
    return Services(
        endpoint=aws.endpoint,
        kubernetes_url=cluster["url"],
        kubernetes_ca=Path(cluster["ca_file"]),
        kubernetes_token=cluster["admin_token"],
        children=(double, *aws.children),
    )


def start_aws(processes: Processes, bound: socket.socket, *, url: str, ca_file: Path, token: str) -> Services:
    """Start the embedded AWS on a bound socket and wait until it answers. The API of its clusters is at `url`."""
    emulator = processes.start(
        "aws",
        [
            *(tools.CLOUD_PYTHON, "-m", "rehearsal.cloud"),
            *("--socket", str(bound.fileno()), "--state-dir", processes.folder / "aws"),
        ],
        environment=tools.environment(
            {
                "SPECDECODE_KUBE_URL": url,
                "SPECDECODE_KUBE_CA": str(ca_file),
                "SPECDECODE_KUBE_TOKEN": token,
                "SPECDECODE_KUBE_ISSUER": ISSUER,
                "MINISTACK_REGION": tools.REGION,
                "SFN_WAIT_SCALE": str(WAIT_SCALE),
            }
        ),
        pass_fds=[bound.fileno()],
    )
    endpoint = _endpoint(bound)
    _await(emulator, lambda: _healthy(endpoint))
    return Services(
        endpoint=endpoint, kubernetes_url=url, kubernetes_ca=ca_file, kubernetes_token=token, children=(emulator,)
    )


def _endpoint(bound: socket.socket) -> str:
    return f"http://127.0.0.1:{bound.getsockname()[1]}"


def _await(child: Child, ready: Callable[[], Any]) -> Any:
    """Poll until `ready` returns something. Raises ChildFailed if the child ends or takes longer than START_S."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if result := ready():
            return result
        child.check()
        time.sleep(0.05)
    raise child.failure(f"did not start within {START_S:.0f} s")


def _ready(file: Path) -> dict[str, str] | None:
    return dict(json.loads(file.read_text("utf-8"))) if file.exists() else None


def _healthy(endpoint: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{endpoint}/_ministack/health", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
