"""One container: its process, restarts with back-off, probes, and its status."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from rehearsal.kubernetes.node.environment import ConfigError, CreateError
from rehearsal.kubernetes.node.logs import ContainerLog
from rehearsal.kubernetes.node.probes import Prober
from rehearsal.kubernetes.node.process import Process
from rehearsal.kubernetes.objects import Json, now

_LONGEST_BACKOFF = 300.0
_STABLE = 600.0
Event = Callable[[str, str, str], None]


@dataclass
class Launch:
    """The process and the prober of one run of a container."""

    process: Process
    prober: Prober


@dataclass
class Container:
    """Runs a container as long as its restart policy says. `launch` starts one run; `changed` publishes the status."""

    spec: Json
    restart_policy: str
    launch: Callable[[int], Awaitable[Launch]]
    changed: Callable[[], None]
    event: Event
    backoff: float
    restarts: int = 0
    state: Json = field(default_factory=lambda: {"waiting": {"reason": "ContainerCreating"}})
    last_state: Json = field(default_factory=dict)
    ready: bool = False
    started: bool = False
    log: ContainerLog | None = None
    previous_log: ContainerLog | None = None
    kill_reason: str = ""
    _process: Process | None = None
    _stopping: bool = False

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def exit_code(self) -> int | None:
        code = self.state.get("terminated", {}).get("exitCode")
        return int(code) if code is not None else None

    async def run(self) -> None:
        """Run, and run again if the policy says so."""
        wait = self.backoff
        while not self._stopping:
            began = asyncio.get_running_loop().time()
            code = await self._run_once()
            if code is None or self._stopping:
                return
            if self.restart_policy == "Never" or (self.restart_policy == "OnFailure" and code == 0):
                return
            if asyncio.get_running_loop().time() - began > _STABLE:
                wait = self.backoff
            self.last_state, self.state = (
                self.state,
                {
                    "waiting": {
                        "reason": "CrashLoopBackOff",
                        "message": f"back-off {wait:g}s restarting failed container={self.name}",
                    }
                },
            )
            self.changed()
            self.event("Warning", "BackOff", f"Back-off restarting failed container {self.name}")
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_BACKOFF)
            self.restarts += 1

    async def _run_once(self) -> int | None:
        """The exit code of one run; None if the container was stopped before it could start."""
        self.ready = self.started = False
        launch = await self._launch()
        if launch is None:
            return None
        self._process = launch.process
        self.previous_log, self.log = self.log, launch.process.log
        self.kill_reason = ""
        began = now()
        self.state = {"running": {"startedAt": began}}
        self.event("Normal", "Started", f"Container started: {self.name}")
        probing = asyncio.create_task(self._probe(launch.prober))
        self.changed()
        if self._stopping:
            launch.process.send(signal.SIGTERM)
        code = await launch.process.wait()
        probing.cancel()
        self._process = None
        self.ready = self.started = False
        reason = self.kill_reason if self.kill_reason == "OOMKilled" else ("Completed" if code == 0 else "Error")
        self.state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": now()}}
        if code > 128:
            self.state["terminated"]["signal"] = code - 128
        if code and self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            self.state["terminated"]["message"] = launch.process.log.tail()
        self.changed()
        return code

    async def _launch(self) -> Launch | None:
        """Start the process. If that fails, try again, as the kubelet does."""
        while not self._stopping:
            try:
                launch = await self.launch(self.restarts)
            except ConfigError as problem:
                self._wait_for("CreateContainerConfigError", str(problem), "Failed")
            except CreateError as problem:
                self._wait_for("CreateContainerError", str(problem), "Failed")
            except OSError as problem:
                self._wait_for("RunContainerError", f"failed to create containerd task: {problem}", "Failed")
            else:
                self.event("Normal", "Created", f"Container created: {self.name}")
                return launch
            await asyncio.sleep(self.backoff)
        return None

    def _wait_for(self, reason: str, message: str, event: str) -> None:
        waiting = {"waiting": {"reason": reason, "message": message}}
        self.event("Warning", event, f"Error: {message}")
        if self.state != waiting:
            self.state = waiting
            self.changed()

    async def _probe(self, prober: Prober) -> None:
        startup, readiness, liveness = (self.spec.get(k) for k in ("startupProbe", "readinessProbe", "livenessProbe"))
        if startup and not await self._until_started(prober, startup):
            return
        self.started = True
        self.ready = readiness is None
        self.changed()
        await asyncio.gather(
            *([self._watch_readiness(prober, readiness)] if readiness else ()),
            *([self._watch_liveness(prober, liveness)] if liveness else ()),
        )

    async def _until_started(self, prober: Prober, probe: Json) -> bool:
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        failures = 0
        while True:
            problem = await prober.check(probe)
            if not problem:
                return True
            failures += 1
            self.event("Warning", "Unhealthy", f"Startup probe failed: {problem}")
            if failures >= probe["failureThreshold"]:
                self._kill_unhealthy("startup")
                return False
            await asyncio.sleep(probe["periodSeconds"])

    async def _watch_readiness(self, prober: Prober, probe: Json) -> None:
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        good = bad = 0
        while True:
            problem = await prober.check(probe)
            good, bad = (0, bad + 1) if problem else (good + 1, 0)
            if problem:
                self.event("Warning", "Unhealthy", f"Readiness probe failed: {problem}")
            ready = good >= probe["successThreshold"] or (self.ready and bad < probe["failureThreshold"])
            if ready != self.ready:
                self.ready = ready
                self.changed()
            await asyncio.sleep(probe["periodSeconds"])

    async def _watch_liveness(self, prober: Prober, probe: Json) -> None:
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        failures = 0
        while True:
            problem = await prober.check(probe)
            failures = failures + 1 if problem else 0
            if problem:
                self.event("Warning", "Unhealthy", f"Liveness probe failed: {problem}")
            if failures >= probe["failureThreshold"]:
                self._kill_unhealthy("liveness")
                return
            await asyncio.sleep(probe["periodSeconds"])

    def _kill_unhealthy(self, probe: str) -> None:
        self.event("Normal", "Killing", f"Container {self.name} failed {probe} probe, will be restarted")
        self._end_soon(30.0)

    def _end_soon(self, grace: float) -> None:
        process = self._process
        if process is not None:
            process.send(signal.SIGTERM)
            asyncio.get_running_loop().call_later(grace, process.send, signal.SIGKILL)

    def kill(self, reason: str) -> None:
        """Send SIGKILL at once (a fault). With reason `OOMKilled` the status says so."""
        self.kill_reason = reason
        if self._process is not None:
            self._process.send(signal.SIGKILL)

    def stop(self, grace: float) -> None:
        """End for good: SIGTERM now, SIGKILL after `grace` seconds."""
        self._stopping = True
        if grace <= 0 and self._process is not None:
            self._process.send(signal.SIGKILL)
        else:
            self._end_soon(grace)

    def status(self, image: str) -> Json:
        """The containerStatus of the pod's status, as a kubelet writes it."""
        found: dict[str, Any] = {
            "name": self.name,
            "image": image,
            "imageID": image,
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
            "state": self.state,
            "lastState": self.last_state,
        }
        if self._process is not None:
            found["containerID"] = f"process://{self._process.pid}"
        return found
