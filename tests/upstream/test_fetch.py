"""Fetching: by hash, again after a passing failure, with a token from a registry, whole or not at all."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.upstream.test_lock import manifest
from tools.upstream.fetch import TRIES, fetch
from tools.upstream.lock import CHART, MANIFEST, Folder, Source, sha256

CHARTS_BYTES = b"a chart"


class Server(ThreadingHTTPServer):
    """Files, failures that pass, and a registry that is as strict as the real one: tokens, and a second store."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.failures: dict[str, list[int]] = {}
        self.cut: dict[str, int] = {}
        self.asked: Counter[str] = Counter()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked[path] += 1
        signed = self.headers.get("Authorization")
        if self.server.failures.get(path):
            self._answer(self.server.failures[path].pop(0), b"not now")
        elif path == "/token/":
            wanted = f"service=127.0.0.1%3A{self.server.server_port}&scope=repository%3Aneuron%2Fchart%3Apull"
            self._answer(200, b'{"token": "t"}') if wanted in self.path else self._answer(400, b"")
        elif path.startswith("/v2/") and signed != "Bearer t":
            self._answer(401, b"who?")
        elif path.startswith("/v2/") and "/blobs/" in path:
            self.send_response(307)
            self.send_header("Location", f"{self.server.url}/store/chart")
            self.end_headers()
        elif path.startswith("/store/") and signed:
            self._answer(400, b"Only one auth mechanism allowed")
        elif self.server.cut.get(path):
            self.server.cut[path] -= 1
            self._answer(200, self.server.files[path][:-1], length=len(self.server.files[path]))
        elif path in self.server.files:
            self._answer(200, self.server.files[path])
        else:
            self._answer(404, b"no")

    def _answer(self, status: int, body: bytes, *, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def one_file(server: Server, root: Path, *, content: bytes = b"text", digest: str = "") -> Folder:
    server.files["/repo/v1/a/b.yaml"] = content
    files = {"a/b.yaml": digest or sha256(content)}
    return Folder(root, {"it": Source(url=f"{server.url}/repo", revision="v1", files=files)})


def brought(folder: Folder) -> tuple[list[str], list[str]]:
    said: list[str] = []
    return fetch(folder, say=said.append, pause_s=0), said


def test_a_file_is_fetched_once_and_then_kept(server: Server, tmp_path: Path) -> None:
    folder = one_file(server, tmp_path)
    assert brought(folder) == ([], ["it v1: 1 fetched, 1 in all"])
    assert folder.read("it", "a/b.yaml") == b"text"
    assert brought(folder) == ([], ["it v1: 0 fetched, 1 in all"])
    assert server.asked["/repo/v1/a/b.yaml"] == 1


def test_a_file_that_was_changed_here_is_fetched_again(server: Server, tmp_path: Path) -> None:
    folder = one_file(server, tmp_path)
    brought(folder)
    (tmp_path / "it/a/b.yaml").write_bytes(b"mine")
    assert brought(folder)[0] == []
    assert folder.read("it", "a/b.yaml") == b"text"


def test_other_bytes_than_the_locks_are_not_kept(server: Server, tmp_path: Path) -> None:
    (problem,) = brought(one_file(server, tmp_path, digest="0" * 64))[0]
    assert f"{server.url}/repo/v1/a/b.yaml: SHA-256 {sha256(b'text')}, the lock has {'0' * 64}" in problem
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_failure_that_passes_is_tried_again(server: Server, tmp_path: Path) -> None:
    folder = one_file(server, tmp_path)
    server.failures["/repo/v1/a/b.yaml"] = [503, 429]
    assert brought(folder)[0] == []
    assert server.asked["/repo/v1/a/b.yaml"] == TRIES == 3


@pytest.mark.parametrize(("times", "problem"), [(1, None), (3, "cut off after 3 bytes")])
def test_an_answer_that_is_cut_off_is_tried_again(
    server: Server, tmp_path: Path, times: int, problem: str | None
) -> None:
    folder = one_file(server, tmp_path)
    server.cut["/repo/v1/a/b.yaml"] = times
    found = brought(folder)[0]
    assert found == ([f"it: {server.url}/repo/v1/a/b.yaml: {problem}"] if problem else [])


@pytest.mark.parametrize(("statuses", "tries"), [([404], 1), ([503] * 3, 3)])
def test_a_failure_that_stays_is_named_with_its_address(
    server: Server, tmp_path: Path, statuses: list[int], tries: int
) -> None:
    folder = one_file(server, tmp_path)
    server.failures["/repo/v1/a/b.yaml"] = [*statuses]
    assert brought(folder)[0] == [f"it: {server.url}/repo/v1/a/b.yaml: HTTP {statuses[0]}"]
    assert server.asked["/repo/v1/a/b.yaml"] == tries


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    source = Source(url="http://127.0.0.1:1/repo", revision="v1", files={"a": "0" * 64})
    (problem,) = brought(Folder(tmp_path, {"it": source}))[0]
    assert problem.startswith("it: http://127.0.0.1:1/repo/v1/a: ")
    assert "refused" in problem


def test_what_cannot_be_had_does_not_stop_the_rest(server: Server, tmp_path: Path) -> None:
    good = one_file(server, tmp_path).lock["it"]
    bad = Source(url=server.url, revision="v9", files={"gone": "0" * 64})
    folder = Folder(tmp_path, {"bad": bad, "good": good})
    problems, said = brought(folder)
    assert len(problems) == 1
    assert said == ["bad v9: 0 fetched, 1 in all", "good v1: 1 fetched, 1 in all"]


def test_a_chart_comes_from_its_registry(server: Server, tmp_path: Path) -> None:
    """With a token, by the manifest's digest; the token does not follow to the store that the blob lies in."""
    image = manifest(CHARTS_BYTES)
    server.files[f"/v2/neuron/chart/manifests/sha256:{sha256(image)}"] = image
    server.files["/store/chart"] = CHARTS_BYTES
    source = Source(url=f"{server.url}/v2/neuron/chart", revision="1.0", files={MANIFEST: sha256(image)})
    folder = Folder(tmp_path, {"it": source})
    assert brought(folder) == ([], ["it 1.0: 2 fetched, 2 in all"])
    assert folder.read("it", CHART) == CHARTS_BYTES
    assert server.asked["/token/"] == 1


def test_a_registry_without_a_token_is_named(server: Server, tmp_path: Path) -> None:
    server.failures["/token/"] = [200]
    source = Source(url=f"{server.url}/v2/neuron/chart", revision="1.0", files={MANIFEST: "0" * 64})
    assert brought(Folder(tmp_path, {"it": source}))[0] == [f"it: {server.url}/token/ answered without a token"]


def test_the_lock_takes_over_a_folders_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tools.upstream import __main__ as command

    lock = tmp_path / "lock.json"
    lock.write_text(json.dumps({"it": {"url": "https://example.com", "revision": "2", "files": {"a": "", "b": "11"}}}))
    (tmp_path / "files/it").mkdir(parents=True)
    (tmp_path / "files/it/a").write_bytes(b"new")
    monkeypatch.setattr(command, "LOCK", lock)
    assert command.main(["--lock", str(tmp_path / "files")]) == 0
    assert json.loads(lock.read_text())["it"]["files"] == {"a": sha256(b"new"), "b": "11"}
    assert capsys.readouterr().out == "it/a has changed: read it\nit/b is not there; its hash stays\n"


def test_after_a_pin_moved_all_is_fetched_anew(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the old hashes are, a chart's by its version; a file that cannot be had leaves the lock as it was."""
    from tools.upstream import __main__ as command

    image = manifest(CHARTS_BYTES)
    server.files |= {"/repo/v2/a": b"new", "/v2/neuron/chart/manifests/1.1": image}
    old = {
        "it": {"url": f"{server.url}/repo", "revision": "v2", "files": {"a": "0" * 64}},
        "chart": {"url": f"{server.url}/v2/neuron/chart", "revision": "1.1", "files": {MANIFEST: "0" * 64}},
    }
    lock = tmp_path / "lock.json"
    lock.write_text(json.dumps(old))
    monkeypatch.setattr(command, "LOCK", lock)
    monkeypatch.setattr(command, "FETCHED", tmp_path / "fetched")
    server.failures["/repo/v2/a"] = [404]
    assert command.main(["--lock"]) == 1
    assert json.loads(lock.read_text()) == old
    assert command.main(["--lock"]) == 0
    new = json.loads(lock.read_text())
    assert new["it"]["files"] == {"a": sha256(b"new")}
    assert new["chart"]["files"] == {MANIFEST: sha256(image)}
