"""Compiling by serving: a real child process that answers /health, leaves files and ends as it is told."""

import json
import os
import socket
import sys
from pathlib import Path

import pytest
from specdecode.exit_codes import PERMANENT, Exit
from specdecode.pod import compile as compiling
from specdecode.pod import fetch, upload
from specdecode.pod.bucket import Bucket, remove
from specdecode.pod.program import PodError

from tests.finished_folders import stored
from tests.patience import PATIENCE_S
from tests.specdecode.steps.aws_fake import FakeS3

SERVER = """
import http.server, json, os, pathlib, signal, sys
folder = pathlib.Path(os.environ["NEURON_COMPILED_ARTIFACTS"])
mode, port = sys.argv[1], int(sys.argv[2])
if "PYTHONPATH" in os.environ:
    sys.exit("the bundle's packages hide the engine's own")
if mode.startswith("exit"):
    sys.exit(int(mode[4:]))
if mode == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
(folder / "weights").mkdir()
if mode != "nothing":
    (folder / "model.pt").write_bytes(b"" if mode == "empty" else b"graph")
    (folder / "weights" / "tp0.safetensors").write_bytes(b"shard")
if mode.startswith("made"):
    os.kill(os.getpid(), signal.SIGKILL) if mode == "made-killed" else sys.exit("no device to load it on")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503 if mode == "never" else 200); self.end_headers()
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps({"choices": [{"text": ""}], "usage": {"completion_tokens": body["max_tokens"]}})
        self.send_response(500 if mode == "mute" else 200); self.end_headers(); self.wfile.write(answer.encode())
    def log_message(self, *args): ...
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@pytest.fixture(autouse=True)
def _quick(tmp_path, monkeypatch):
    monkeypatch.setattr(compiling, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(compiling, "STOP_S", 0.3)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "bundle"))
    monkeypatch.setenv("NEURON_COMPILED_ARTIFACTS", str(tmp_path / "artifact"))


def start(mode: str, *, limit_s: float = PATIENCE_S, leaves: tuple[str, ...] = (), ask: str | None = None) -> float:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    Path("artifact").mkdir()
    command = [sys.executable, "-c", SERVER, mode, str(port)]
    made = tuple(Path("artifact") / path for path in leaves)
    url = f"http://127.0.0.1:{port}/health"
    return compiling.compile_by_serving(command, health=url, limit_s=limit_s, made=made, ask=ask)


def uploaded(artifact: Path) -> list[str]:
    """What is stored of it, in this order."""
    s3 = FakeS3()
    upload.upload(Bucket("b", s3), "compiled/f/", artifact, about={})
    complete = json.loads(s3.objects["compiled/f/COMPLETE.json"])
    return [*(each["path"] for each in complete["files"]), s3.uploads[-1].removeprefix("compiled/f/")]


@pytest.mark.parametrize("mode", ["good", "stubborn"])
def test_server_is_stopped_once_it_is_healthy_and_its_files_are_uploaded(mode):
    """But not what would pass for our COMPLETE.json."""
    assert start(mode) > 0
    Path("artifact/COMPLETE.json").write_text("{}")
    assert uploaded(Path("artifact")) == ["model.pt", "weights/tp0.safetensors", "COMPLETE.json"]


@pytest.mark.parametrize(
    ("mode", "code", "says"),
    [
        ("exit1", Exit.SERVER_EXITED, "exited 1 before it was healthy; its log is above"),
        ("kill", Exit.SERVER_EXITED, "killed by signal 9"),
        ("never", Exit.NOT_HEALTHY, "not healthy after"),
    ],
)
def test_each_way_to_fail_has_its_code(mode, code, says):
    with pytest.raises(PodError, match=says) as caught:
        start(mode, limit_s=1 if mode == "never" else PATIENCE_S)
    assert caught.value.code == code


@pytest.mark.parametrize("mode", ["good", "mute"])
def test_a_start_check_asks_the_server_for_tokens(mode, capsys):
    if mode == "good":
        start(mode, ask="m")
        assert "it answers: 8 tokens" in capsys.readouterr().out
    else:
        with pytest.raises(PodError, match="started and did not answer: HTTP 500") as caught:
            start(mode, ask="m")
        assert caught.value.code == Exit.BAD_ANSWER


WHOLE = ("model.pt", "weights/tp0.safetensors")


def test_without_devices_a_server_that_ends_once_all_is_there_has_done_its_work(capsys):
    assert start("made", leaves=WHOLE) > 0
    assert "ended with 1 once it had compiled" in capsys.readouterr().out
    assert uploaded(Path("artifact")) == ["model.pt", "weights/tp0.safetensors", "COMPLETE.json"]


@pytest.mark.parametrize(
    ("mode", "leaves"),
    [("made", ()), ("made", (*WHOLE, "weights/tp1.safetensors")), ("made-killed", WHOLE), ("exit1", WHOLE)],
    ids=["with devices", "a rank is missing", "killed", "before it compiled"],
)
def test_without_devices_a_server_that_ends_too_early_has_failed(mode, leaves):
    with pytest.raises(PodError) as caught:
        start(mode, leaves=leaves)
    assert caught.value.code == Exit.SERVER_EXITED


def test_without_devices_a_server_that_becomes_healthy_has_done_its_work_too():
    assert start("good", leaves=WHOLE) > 0


@pytest.mark.parametrize("mode", ["nothing", "empty"])
def test_a_healthy_server_without_an_artifact_is_a_failure(mode):
    start(mode)
    s3 = FakeS3()
    with pytest.raises(PodError) as caught:
        upload.upload(Bucket("b", s3), "compiled/f/", Path("artifact"), about={})
    assert caught.value.code == Exit.NO_ARTIFACT
    assert not s3.objects


ARTIFACT = ["--artifact", "compiled/f/"]
TRANSFER = ["--bucket", "b", *ARTIFACT]
SERVE = [*ARTIFACT, "--artifact-variable", "CACHE_HERE", "--health", "http://x", "--minutes", "2", "--"]


def with_bucket(monkeypatch, s3):
    for module in (fetch, upload):
        monkeypatch.setattr(module, "Bucket", lambda name: Bucket(name, s3))


def test_what_is_complete_is_not_made_again(monkeypatch):
    s3 = FakeS3(stored("compiled/f/"))
    with_bucket(monkeypatch, s3)
    fetch.main([*TRANSFER, "--folder", "models/m/"])
    compiling.main([*SERVE, "/nonexistent/vllm", "serve"])
    upload.main(TRANSFER)
    assert not s3.uploads


def test_weights_are_fetched_compiled_and_the_artifact_stored_with_its_command(monkeypatch):
    s3 = FakeS3(stored("models/m/"))
    seen = {}

    def serve(command, **kwargs):
        seen.update(command=command, **kwargs)
        Path(os.environ["CACHE_HERE"], "model.pt").write_bytes(b"x")

    with_bucket(monkeypatch, s3)
    monkeypatch.setenv("CACHE_HERE", "")  # restored afterwards
    monkeypatch.setattr(compiling, "compile_by_serving", serve)
    command = ["vllm", "serve", "m", "--override-neuron-config", '{"a": true}']
    fetch.main([*TRANSFER, "--folder", "models/m/"])
    compiling.main([*SERVE, *command])
    upload.main([*TRANSFER, "--", *command])
    assert seen["command"] == command and seen["limit_s"] == 120
    assert json.loads(s3.objects["compiled/f/COMPLETE.json"])["command"] == command


@pytest.mark.parametrize("target", ["../token", "/proc/self/environ", "nowhere", "loop"])
def test_a_link_that_the_engine_leaves_takes_no_other_file_into_the_bucket(tmp_path, target):
    """A link to the token of the container that uploads would make it an object that servers read."""
    (tmp_path / "token").write_text("secret")
    (tmp_path / "artifact").mkdir()
    (tmp_path / "artifact" / "model.pt").write_bytes(b"x")
    (tmp_path / "artifact" / "loop").symlink_to(target)
    s3 = FakeS3()
    with pytest.raises(PodError, match="lead out of its artifact: loop") as caught:
        upload.upload(Bucket("b", s3), "compiled/f/", tmp_path / "artifact", about={})
    assert caught.value.code == Exit.CORRUPT and not s3.objects


@pytest.mark.parametrize("name", [b"a\\b", b"a\nb", b"a\x7f", b"a\xff", b"d/" * 600 + b"x"])
def test_a_name_that_no_reader_takes_ends_the_upload_before_it_begins(tmp_path, name: bytes):
    (tmp_path / "artifact").mkdir()
    (tmp_path / "artifact" / "model.pt").write_bytes(b"x")
    path = tmp_path / "artifact" / os.fsdecode(name)
    for folder in reversed(path.parents):
        folder.mkdir(exist_ok=True)
    path.write_bytes(b"x")
    s3 = FakeS3()
    with pytest.raises(PodError, match="change the arm's settings or the engine's image") as caught:
        upload.upload(Bucket("b", s3), "compiled/f/", tmp_path / "artifact", about={})
    assert caught.value.code == Exit.CORRUPT and caught.value.code in PERMANENT and not s3.objects
    remove(tmp_path / "artifact")
    assert not (tmp_path / "artifact").exists()


def test_a_link_to_another_file_of_the_artifact_is_stored_as_that(tmp_path):
    (tmp_path / "artifact").mkdir()
    (tmp_path / "artifact" / "model.pt").write_bytes(b"x")
    (tmp_path / "artifact" / "latest.pt").symlink_to("model.pt")
    s3 = FakeS3()
    upload.upload(Bucket("b", s3), "compiled/f/", tmp_path / "artifact", about={})
    assert s3.objects["compiled/f/latest.pt"] == s3.objects["compiled/f/model.pt"] == b"x"


def test_wrong_arguments_are_one_line():
    with pytest.raises(PodError) as caught:
        compiling.main(["--bucket", "b"])
    assert caught.value.code == Exit.USAGE
