"""A running double for the tests (one process for all, a namespace for each test), the real kubectl, a small HTTP
client.
"""

import json
import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.layer import program
from tests.patience import PATIENCE_S

REPOSITORY = Path(__file__).parents[3]
OTHER_IMAGE = "registry.example.com/other:1"
"""An image with a folder of its own, in which the program `other-engine` is."""
TOKEN = "test-admin-token"
Json = dict[str, Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a double of its own is of a slow suite: to start one takes more than a second of CPU."""
    for item in items:
        if "fresh" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


class Double:
    """A running double, and the requests of tests to it."""

    def __init__(self, process: subprocess.Popen[str], state: Path, ready: Json) -> None:
        self.process = process
        self.state = state
        self.url, self.token = ready["url"], ready["admin_token"]
        self.ca_file = Path(ready["ca_file"])
        self._context = ssl.create_default_context(cafile=ready["ca_file"])
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._context)
        )

    @property
    def access(self) -> list[str]:
        """The options of kubectl for the administrator."""
        return ["--server", self.url, "--certificate-authority", str(self.ca_file), "--token", self.token]

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        token: str | None = None,
        timeout: float = PATIENCE_S,
    ) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": kind}
        request = urllib.request.Request(self.url + path, method=method, data=data, headers=headers)
        try:
            with self._opener.open(request, timeout=timeout) as reply:
                status, raw = reply.status, reply.read()
        except urllib.error.HTTPError as refused:
            status, raw = refused.code, refused.read()
        if path.split("?")[0].endswith("/log") and status == 200:
            return status, raw.decode()
        try:
            return status, json.loads(raw)
        except ValueError:
            return status, raw.decode()

    def ok(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> Any:
        status, answer = self.request(method, path, body, kind=kind)
        assert status < 300, (method, path, answer)
        return answer

    def get(self, path: str) -> Any:
        return self.ok("GET", path)

    def control(self, action: str, **body: Any) -> Any:
        return self.ok("POST", f"/_rehearsal/{action}", body)

    def helm(self, chart: str, version: str, *, namespace: str = "kube-system", **values: Any) -> None:
        given = {"release": chart, "namespace": namespace, "chart": chart, "version": version}
        self.control("helm", request="Create", **given, **({"values": values} if values else {}))

    def run(self, body: Any, phase: str = "Succeeded", *, namespace: str = "apps") -> Any:
        """Create a pod and wait for a phase."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        self.ok("POST", path, body)
        return self.wait(f"{path}/{body['metadata']['name']}", lambda p: p.get("status", {}).get("phase") == phase)

    def wait(self, path: str, test: Callable[[Any], Any], *, seconds: float = PATIENCE_S) -> Any:
        """The object at `path`, once `test` holds for it. `test` gets None if there is no object."""
        deadline = time.monotonic() + seconds
        while True:
            status, answer = self.request("GET", path)
            found = answer if status == 200 else None
            if test(found):
                return found
            if time.monotonic() > deadline:
                events = self.get("/api/v1/events")["items"][-25:]
                told = [f"{e['involvedObject']['name']}: {e['reason']}: {e['message']}" for e in events]
                shown = json.dumps((found or {}).get("status", found) if isinstance(found, dict) else found)[:1500]
                raise AssertionError(f"{path} after {seconds} s: {shown}\n" + "\n".join(told))
            time.sleep(0.05)

    def events(self, namespace: str, reason: str) -> list[str]:
        items = self.get(f"/api/v1/namespaces/{namespace}/events")["items"]
        return [event["message"] for event in items if event["reason"] == reason]

    def namespace(self, name: str) -> str:
        self.ok("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.wait(f"/api/v1/namespaces/{name}/serviceaccounts/default", bool)
        return name

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=PATIENCE_S)


def start(folder: Path, *options: str) -> Double:
    folder.mkdir(parents=True, exist_ok=True)
    image = folder / "image"
    (image / "bin").mkdir(parents=True, exist_ok=True)
    python = image / "bin" / "python3"
    if not python.exists():
        python.symlink_to(Path(sys.executable).resolve())
    command = [sys.executable, "-m", "rehearsal.kubernetes", "--state-dir", str(folder / "state")]
    command += ["--image-path", str(image), "--admin-token", TOKEN, "--node-delay", "0.3", "--backoff", "0.3", *options]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=(folder / "stderr").open("w"),
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("ready at https://"), (folder / "stderr").read_text()
    ready = folder / "state" / "ready.json"
    assert ready.stat().st_mode & 0o077 == 0
    return Double(process, folder / "state", json.loads(ready.read_text()))


@pytest.fixture(scope="session")
def shared_double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    folder = tmp_path_factory.mktemp("double")
    program = folder / "other" / "bin" / "other-engine"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho other\n")
    program.chmod(0o755)
    double = start(folder, f"--image={OTHER_IMAGE}={folder / 'other'}")
    yield double
    double.stop()
    assert "Traceback" not in (folder / "stderr").read_text(), (folder / "stderr").read_text()


_count = iter(range(10_000))


@pytest.fixture
def double(shared_double: Double) -> Double:
    return shared_double


@pytest.fixture
def namespace(double: Double) -> str:
    return double.namespace(f"test-{next(_count)}")


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Double]:
    """A double for one test only, if the test installs software or breaks things."""
    double = start(tmp_path / "double")
    yield double
    double.stop()
    errors = (tmp_path / "double" / "stderr").read_text()
    assert "Traceback" not in errors, errors


@pytest.fixture(scope="session")
def kubectl_binary() -> Path:
    return program("kubectl")


@pytest.fixture
def kubectl(kubectl_binary: Path, double: Double, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run kubectl as the administrator: `kubectl("get", "pods", check=False, stdin="…")`."""

    def run(*arguments: str, stdin: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [kubectl_binary, *double.access, "--cache-dir", tmp_path / "cache", *arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        done = subprocess.run(
            [str(part) for part in command],
            input=stdin,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    return run
