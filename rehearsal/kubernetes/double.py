"""One running double: its parts put together, started and stopped."""

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from rehearsal.kubernetes import admission, certificates, nodes, quotas, rbac
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.admission import AUDIENCE, ROLE_ANNOTATION
from rehearsal.kubernetes.control import Control
from rehearsal.kubernetes.controllers.claims import Claims
from rehearsal.kubernetes.controllers.controller import Controller, start
from rehearsal.kubernetes.controllers.daemons import DaemonSets
from rehearsal.kubernetes.controllers.deployments import Deployments, ReplicaSets
from rehearsal.kubernetes.controllers.garbage import GarbageCollector
from rehearsal.kubernetes.controllers.jobs import Jobs, generate_selector
from rehearsal.kubernetes.controllers.namespaces import Namespaces
from rehearsal.kubernetes.controllers.quotas import Quotas
from rehearsal.kubernetes.controllers.scheduler import KubeScheduler
from rehearsal.kubernetes.controllers.services import Endpoints, address_services
from rehearsal.kubernetes.controllers.slices import Slices
from rehearsal.kubernetes.controllers.volumes import Volumes
from rehearsal.kubernetes.faults import Faults
from rehearsal.kubernetes.identity import Authenticator
from rehearsal.kubernetes.karpenter.cloud import Cloud
from rehearsal.kubernetes.karpenter.drain import Drain
from rehearsal.kubernetes.karpenter.dynamic import Dynamic
from rehearsal.kubernetes.karpenter.ec2 import Ec2
from rehearsal.kubernetes.karpenter.node_claims import NodeClaims
from rehearsal.kubernetes.karpenter.pools import PoolController
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.node import guardian
from rehearsal.kubernetes.node.account_tokens import TokenIssuer
from rehearsal.kubernetes.node.agent import NodeAgent
from rehearsal.kubernetes.node.loopback import PodNetwork
from rehearsal.kubernetes.node.mountpoint import Mountpoint
from rehearsal.kubernetes.node.settings import NodeSettings
from rehearsal.kubernetes.node.shipping import Shipper
from rehearsal.kubernetes.objects import annotations_of
from rehearsal.kubernetes.server import ApiServer
from rehearsal.kubernetes.software.installed import Installed

_STOP_LIMIT = 10.0
"""Seconds for an orderly end of all pods. After that the guardian kills what is left."""
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True, kw_only=True)
class DoubleOptions:
    """The command line's options; see `__main__`."""

    port: int
    state_dir: Path
    image_path: Path
    images: dict[str, Path]
    aws_endpoint: str
    region: str
    cluster_name: str
    oidc_issuer: str
    admin_token: str
    node_delay: float
    system_nodes: int
    system_instance_type: str
    backoff: float
    ec2: bool


@dataclass(kw_only=True)
class _Parts:
    """The parts of the double that use each other."""

    cluster: Cluster
    faults: Faults
    network: PodNetwork
    authenticator: Authenticator
    installed: Installed
    cloud: Cloud
    tokens: TokenIssuer
    agent: NodeAgent


class Double:
    """The API, the controllers and the node, in one process and one event loop."""

    def __init__(self, options: DoubleOptions) -> None:
        self._options = options
        self._marker = secrets.token_hex(8)
        self._tasks: list[asyncio.Task[None]] = []
        self._runner: web.AppRunner | None = None

    async def start(self) -> dict[str, str]:
        """Serve. Returns the URL, the path of the CA's certificate and the administrator's token."""
        self._guardian = guardian.start(self._marker)
        self._network = PodNetwork()
        parts = _parts(self._options, self._network, self._marker)
        self._agent = parts.agent
        context, ca_file = certificates.server_context(self._options.state_dir.absolute() / "tls")
        controllers = _controllers(self._options, parts, certificate=Path(ca_file).read_text())

        def look_again() -> None:
            for controller in controllers:
                controller.wake()

        parts.faults.changed = look_again
        if self._options.ec2:
            parts.cloud.ec2 = _ec2(self._options, parts, changed=look_again)
        self._populate(parts.cluster)
        self._tasks = start(controllers)
        self._runner = web.AppRunner(_api_server(parts).application(), access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._options.port, ssl_context=context)
        await site.start()
        port = self._runner.addresses[0][1]
        token = self._options.admin_token
        return {"url": f"https://127.0.0.1:{port}", "ca_file": str(ca_file), "admin_token": token}

    def _populate(self, cluster: Cluster) -> None:
        for resource, obj in rbac.bootstrap_objects():
            cluster.create(resource, obj)
        for name in _NAMESPACES:
            cluster.create(r.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for index in range(self._options.system_nodes):
            zone = f"{self._options.region}{'abc'[index % 3]}"
            name = f"ip-10-0-{index}-10.{self._options.region}.compute.internal"
            node = nodes.build(
                name=name,
                instance_type=self._options.system_instance_type,
                zone=zone,
                address=self._network.node_address,
                labels={"eks.amazonaws.com/nodegroup": "system"},
                taints=[],
                ephemeral="18Gi",
                provider_id=f"aws:///{zone}/i-{secrets.token_hex(8)}",
            )
            cluster.store.create(r.NODES, node)

    async def stop(self) -> None:
        """End every pod and every task. The guardian kills what is left."""
        if self._runner is not None:
            for task in self._tasks:
                task.cancel()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._agent.stop(), _STOP_LIMIT)
            await self._runner.cleanup()
        self._network.close()
        if self._guardian.stdin:
            self._guardian.stdin.close()
        await asyncio.to_thread(self._guardian.wait)


def _parts(o: DoubleOptions, network: PodNetwork, marker: str) -> _Parts:
    cluster, faults = Cluster(), Faults()
    cluster.hooks.add(quotas.default_requests)
    cluster.hooks.add(admission.pod_identity_webhook(o.region))
    cluster.hooks.add(generate_selector)
    cluster.hooks.add(address_services(network))
    cluster.hooks.add(faults.admit)
    installed, tokens = Installed(cluster), TokenIssuer(o.oidc_issuer)
    settings = NodeSettings(
        cluster=cluster,
        network=network,
        faults=faults,
        tokens=tokens,
        mountpoint=Mountpoint(
            cluster=cluster, installed=installed, faults=faults, tokens=tokens, aws_endpoint=o.aws_endpoint
        ),
        shipper=Shipper(
            cluster_name=o.cluster_name,
            installed=installed,
            tokens=tokens,
            aws_endpoint=o.aws_endpoint,
            region=o.region,
        ),
        image_path=o.image_path.absolute(),
        images=o.images,
        state_dir=o.state_dir.absolute(),
        aws_endpoint=o.aws_endpoint,
        marker=marker,
        backoff=o.backoff,
    )
    return _Parts(
        cluster=cluster,
        faults=faults,
        network=network,
        authenticator=Authenticator(
            admin_token=o.admin_token, aws_endpoint=o.aws_endpoint, cluster_name=o.cluster_name
        ),
        installed=installed,
        cloud=Cloud(region=o.region, faults=faults),
        tokens=tokens,
        agent=NodeAgent(settings),
    )


def _controllers(o: DoubleOptions, parts: _Parts, *, certificate: str) -> list[Controller]:
    """The controllers, in the order in which they look at a change."""
    cluster, installed, cloud, faults = parts.cluster, parts.installed, parts.cloud, parts.faults
    return [
        Namespaces(cluster, certificate=certificate),
        GarbageCollector(cluster),
        Quotas(cluster),
        Volumes(cluster),
        Jobs(cluster, backoff=o.backoff),
        Deployments(cluster),
        ReplicaSets(cluster),
        DaemonSets(cluster),
        Claims(cluster),
        Slices(cluster, faults=faults),
        KubeScheduler(cluster),
        Endpoints(cluster),
        PoolController(cluster, installed=installed, faults=faults),
        NodeClaims(cluster, installed=installed, cloud=cloud, faults=faults, network=parts.network, delay=o.node_delay),
        Drain(cluster, installed=installed, cloud=cloud),
        Dynamic(cluster, installed=installed, cloud=cloud),
        parts.agent,
    ]


def _api_server(parts: _Parts) -> ApiServer:
    control = Control(
        cluster=parts.cluster,
        authenticator=parts.authenticator,
        faults=parts.faults,
        installed=parts.installed,
        cloud=parts.cloud,
        agent=parts.agent,
        network=parts.network,
    )
    return ApiServer(
        cluster=parts.cluster,
        authenticator=parts.authenticator,
        faults=parts.faults,
        logs=parts.agent,
        control=control,
    )


def _ec2(o: DoubleOptions, parts: _Parts, *, changed: Callable[[], None]) -> Ec2:
    return Ec2(
        endpoint=o.aws_endpoint,
        region=o.region,
        cluster_name=o.cluster_name,
        credentials=lambda: _karpenter_credentials(parts),
        changed=changed,
    )


def _karpenter_credentials(parts: _Parts) -> tuple[str, str]:
    """The role of Karpenter's service account, and a token with which the account assumes that role."""
    namespace, account = parts.installed.karpenter_namespace, "karpenter"
    found = parts.cluster.store.require(r.SERVICE_ACCOUNTS, namespace, account)
    token = parts.tokens.issue(namespace=namespace, account=account, pod="karpenter-0", audience=AUDIENCE, seconds=3600)
    return annotations_of(found)[ROLE_ANNOTATION], token
