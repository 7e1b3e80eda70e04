"""One pod on a node: its volumes, init containers, containers, status and end."""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers.services import service_address
from rehearsal.kubernetes.node import dead_mount, devices, environment, guardian, status, volumes
from rehearsal.kubernetes.node.container import Container, Launch
from rehearsal.kubernetes.node.images import ImagePuller
from rehearsal.kubernetes.node.logs import ContainerLog
from rehearsal.kubernetes.node.probes import Prober
from rehearsal.kubernetes.node.process import Process
from rehearsal.kubernetes.node.settings import NodeSettings
from rehearsal.kubernetes.objects import Json, dig, name_of, now

_COMPONENT = "kubelet"
_SYNC_S = 2.0
"""Seconds between two looks at mounted ConfigMaps and Secrets; a kubelet's `syncFrequency` is a minute."""


class PodWorker:
    """Starts one pod, keeps its status, and ends it."""

    def __init__(self, settings: NodeSettings, pod: Json, *, host_address: str, gone: Callable[[Json], None]) -> None:
        self._settings = settings
        self._pod = pod
        self._host_address = host_address
        self._gone = gone
        self._folder = volumes.PodFolder(settings.state_dir / "pods" / pod["metadata"]["uid"])
        self._init: list[Container] = []
        self._main: list[Container] = []
        self._initialized = False
        self._stopping: float | None = None
        self._dead_mount = ""
        self._puller = ImagePuller(settings, event=self._event, changed=self.publish)
        self.is_evicted = False
        self._cleared: asyncio.Task[None] | None = None
        self._task = asyncio.create_task(self._run(), name=f"pod {name_of(pod)}")

    @property
    def containers(self) -> list[Container]:
        return [*self._init, *self._main]

    async def _run(self) -> None:
        refreshing: asyncio.Task[None] | None = None
        try:
            self._assign_address()
            await self._wait_for(self._prepare_devices, "FailedPrepareDynamicResources")
            await self._wait_for(self._mount_volumes, "FailedMount")
            refreshing = asyncio.create_task(self._refresh_volumes())
            spec = self._pod["spec"]
            once = "OnFailure" if spec["restartPolicy"] == "Always" else spec["restartPolicy"]
            self._init = [self._container(c, once) for c in spec.get("initContainers", ())]
            self._main = [self._container(c, spec["restartPolicy"]) for c in spec["containers"]]
            self.publish()
            for container in self._init:
                await self._puller.pull(container)
                await container.run()
                if container.exit_code != 0:
                    self.publish()
                    return
            self._initialized = True
            for container in self._main:
                await self._puller.pull(container)
            await asyncio.gather(*(container.run() for container in self._main))
        finally:
            if refreshing is not None:
                refreshing.cancel()
            self.publish()
            self._settings.mountpoint.release(self._pod)
            self._cleared = asyncio.create_task(asyncio.to_thread(self._folder.remove))

    def _assign_address(self) -> None:
        address = service_address(self._settings.cluster.store, self._pod) or self._settings.network.next_address()

        def change(obj: Json) -> None:
            found = obj.setdefault("status", {})
            found |= {"phase": "Pending", "podIP": address, "podIPs": [{"ip": address}], "startTime": now()}
            found |= {"hostIP": self._host_address, "hostIPs": [{"ip": self._host_address}]}

        changed = self._settings.cluster.modify(r.PODS, self._pod, change)
        if changed is not None:
            self._pod = changed

    async def _wait_for(self, step: Callable[[], object], reason: str) -> None:
        """Repeat a step until it works. Each failure makes an Event."""
        wait = 0.5
        while True:
            try:
                result = step()
                if asyncio.iscoroutine(result):
                    await result
                return
            except (volumes.MountError, devices.PrepareError) as problem:
                self._event("Warning", reason, str(problem))
            await asyncio.sleep(wait)
            wait = min(wait * 2, 10.0)

    def _prepare_devices(self) -> None:
        devices.prepare(self._settings.cluster.store, self._pod)

    async def _mount_volumes(self) -> None:
        store = self._settings.cluster.store
        for volume in self._pod["spec"].get("volumes", ()):
            folder = self._folder.volume(volume["name"])
            try:
                if "persistentVolumeClaim" in volume:
                    await self._settings.mountpoint.mount(self._pod, volume, folder)
                else:
                    volumes.set_up(store, self._settings.tokens, self._pod, volume, folder)
            except volumes.MountError as problem:
                raise volumes.MountError(
                    f'MountVolume.SetUp failed for volume "{volume["name"]}" : {problem}'
                ) from None

    async def _refresh_volumes(self) -> None:
        """Repeat the kubelet's sync of mounted ConfigMaps and Secrets."""
        while True:
            await asyncio.sleep(_SYNC_S)
            for volume in self._pod["spec"].get("volumes", ()):
                folder = self._folder.volume(volume["name"])
                volumes.refresh(self._settings.cluster.store, self._pod, volume, folder)

    def _container(self, spec: Json, restart_policy: str) -> Container:
        return Container(
            spec=spec,
            restart_policy=restart_policy,
            launch=lambda restart: self._launch(spec, restart),
            changed=self.publish,
            event=self._event,
            backoff=self._settings.backoff,
        )

    async def _launch(self, spec: Json, restart: int) -> Launch:
        settings = self._settings
        _refuse_root(self._pod, spec)
        if self._dead_mount:
            raise dead_mount.refuse(self._pod, self._dead_mount)
        self._dead_mount = dead_mount.claim_of(self._pod, settings.faults.mount_dies)
        cwd = volumes.build_root(self._folder, spec)
        env = self._environment(spec)
        command = [environment.expand(part, env) for part in (*spec["command"], *spec.get("args", ()))]
        taken = partial(settings.shipper.take, self._pod, spec["name"], restart)
        log = ContainerLog(self._folder.log(spec["name"], restart), taken=taken)
        try:
            process = await Process.start(command, cwd=cwd, env=env, log=log)
        except OSError:
            log.close()
            raise
        address = dig(self._pod, "status", "podIP", default="")
        return Launch(process=process, prober=Prober(address=address, container=spec, cwd=cwd, env=env))

    def _environment(self, spec: Json) -> dict[str, str]:
        """The variables of a container. Raises ConfigError if one of them cannot be set."""
        settings = self._settings
        home = self._folder.path / "home"
        home.mkdir(exist_ok=True)
        image_path = settings.images.get(spec["image"], settings.image_path)
        base = environment.image_environment(image_path, self._pod, home)
        base[guardian.VARIABLE] = settings.marker
        env = environment.build(settings.cluster.store, self._pod, spec, base)
        volumes.check_paths(spec, env)
        env |= volumes.local_variables(self._folder, spec)
        if settings.aws_endpoint:
            env.setdefault("AWS_ENDPOINT_URL", settings.aws_endpoint)
        if settings.faults.hub:
            env.setdefault("HF_ENDPOINT", settings.faults.hub)
        if settings.faults.engine:
            env["REHEARSAL_IMAGE"] = settings.faults.engine
        if self._dead_mount:
            dead = self._folder.path / "dead-mount"
            env["PATH"] = dead_mount.search_path(dead, env["PATH"], settings.faults.mount_dies)
        return env

    def publish(self) -> None:
        """Write the pod's present status."""
        if self._pod["spec"]["nodeName"] in self._settings.cut:
            return

        def change(obj: Json) -> None:
            if self.is_evicted:
                status.describe_evicted(obj)
                return
            stopping = self._stopping is not None
            status.describe(obj, self._init, self._main, initialized=self._initialized, stopping=stopping)

        self._settings.cluster.modify(r.PODS, self._pod, change)

    def evict(self) -> None:
        """End the pod as if the local disk were full: the containers are killed at once, and their states are lost."""
        self.is_evicted = True
        self._event("Warning", "Evicted", status.EVICTED)
        for container in self.containers:
            container.stop(0)
        self.publish()

    def _event(self, kind: str, reason: str, message: str) -> None:
        self._settings.cluster.event(self._pod, kind, reason, message, component=_COMPONENT)

    def stop(self, grace: float) -> None:
        """End the pod: SIGTERM, SIGKILL after `grace` seconds, then `gone` is called. A second call may shorten the
        grace.
        """
        if self._stopping is not None and grace >= self._stopping:
            return
        first, self._stopping = self._stopping is None, grace
        for container in self.containers:
            container.stop(grace)
        if first:
            self._ending = asyncio.create_task(self._end(), name=f"end of pod {name_of(self._pod)}")

    async def _end(self) -> None:
        if any(container.running for container in self.containers):
            for container in self.containers:
                if container.running:
                    self._event("Normal", "Killing", f"Stopping container {container.name}")
            while any(container.running for container in self.containers):
                await asyncio.wait([self._task], timeout=0.2)
                if self._task.done():
                    break
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self._task
        try:
            if self._cleared is not None:  # the kubelet too keeps a pod's object until its volumes are gone
                await self._cleared
        finally:
            self._gone(self._pod)

    async def finished(self) -> None:
        """Wait until a stopped pod has ended."""
        await asyncio.wait([self._ending])

    async def forget(self) -> None:
        """Remove the logs too: the pod object is gone."""
        await asyncio.to_thread(self._folder.forget)


def _refuse_root(pod: Json, spec: Json) -> None:
    """Raise ConfigError if the container must not run as root and names no other user: the image's user is root."""
    context = dig(pod, "spec", "securityContext", default={}) | spec.get("securityContext", {})
    if context.get("runAsNonRoot") and not context.get("runAsUser"):
        raise environment.ConfigError("container has runAsNonRoot and image will run as root")
