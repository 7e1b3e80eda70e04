"""Probes: httpGet and tcpSocket on the pod's address; exec in the container's folder and environment."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import aiohttp

from rehearsal.kubernetes.objects import Json


class Prober:
    """Runs one container's probes."""

    def __init__(self, *, address: str, container: Json, cwd: Path, env: Mapping[str, str]) -> None:
        self._address = address
        self._container = container
        self._cwd = cwd
        self._env = env

    async def check(self, probe: Json) -> str:
        """The kubelet's message about a failure; empty if the probe succeeds."""
        timeout = probe["timeoutSeconds"]
        try:
            async with asyncio.timeout(timeout):
                if "httpGet" in probe:
                    return await self._http(probe["httpGet"])
                if "tcpSocket" in probe:
                    return await self._tcp(probe["tcpSocket"])
                return await self._exec(probe["exec"]["command"])
        except TimeoutError:
            return f"context deadline exceeded ({timeout}s)"
        except aiohttp.ClientConnectorError as problem:
            return (
                f"dial tcp {problem.host}:{problem.port}: connect: {os.strerror(problem.os_error.errno or 0).lower()}"
            )
        except (aiohttp.ClientError, OSError) as problem:
            return str(problem) or type(problem).__name__

    def _port(self, port: int | str) -> int:
        if isinstance(port, int):
            return port
        for declared in self._container.get("ports", ()):
            if declared.get("name") == port:
                return int(declared["containerPort"])
        raise OSError(f"no port named {port}")

    async def _http(self, get: Json) -> str:
        url = f"http://{get.get('host', self._address)}:{self._port(get['port'])}{get.get('path', '/')}"
        headers = {"User-Agent": "kube-probe/1.35"} | {h["name"]: h["value"] for h in get.get("httpHeaders", ())}
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, headers=headers, allow_redirects=False) as reply,
        ):
            body = (await reply.content.read(512)).decode(errors="replace")
            ok = 200 <= reply.status < 400
            return "" if ok else f"HTTP probe failed with statuscode: {reply.status} {body[:120]}".strip()

    async def _tcp(self, tcp: Json) -> str:
        _, writer = await asyncio.open_connection(tcp.get("host", self._address), self._port(tcp["port"]))
        writer.close()
        return ""

    async def _exec(self, command: list[str]) -> str:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self._cwd,
            env=dict(self._env),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = await process.communicate()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        return (
            ""
            if process.returncode == 0
            else output.decode(errors="replace")[:512] or f"exit code {process.returncode}"
        )
