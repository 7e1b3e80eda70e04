"""The digest of an image: what a registry answers, over HTTP, and what is written into an engine's file."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from specdecode.cli.preflight import registry
from specdecode.experiment import assets_dir, load_engine
from specdecode.experiment.engine import Engine

from tests.specdecode.cli.preflight.aws import ACCOUNT, Aws, error

DIGEST = f"sha256:{'a' * 64}"
OTHER = f"sha256:{'b' * 64}"
IMAGE = "public.ecr.aws/neuron/vllm:1.0"


class Registry(BaseHTTPRequestHandler):
    """Manifests for who has the token, which anybody gets for the scope of the repository."""

    def do_GET(self):
        query = parse_qs(urlsplit(self.path).query)
        good = query == {"service": ["public.ecr.aws"], "scope": ["repository:neuron/vllm:pull"]}
        self.answer(200 if good else 400, json.dumps({"token": "t0ken"}).encode())

    def do_HEAD(self):
        if self.headers.get("Authorization") != "Bearer t0ken":
            challenge = 'Bearer realm="https://public.ecr.aws/token/",service="public.ecr.aws",scope="aws"'
            return self.answer(401, **{"Www-Authenticate": challenge})
        assert "application/vnd.oci.image.index.v1+json" in self.headers["Accept"]
        known = self.path == "/v2/neuron/vllm/manifests/1.0"
        return self.answer(200 if known else 404, **({"Docker-Content-Digest": DIGEST} if known else {}))

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def http():
    """`registry.http` with the registry on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_port}"
    yield lambda method, url, headers: registry.http(method, url.replace("https://public.ecr.aws", here), headers)
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def engine(**changes):
    shown = (
        load_engine("0.9.1-sdk2.26.1").model_dump(mode="json")
        | {"image": IMAGE, "tools_image": None, "tools_digest": None}
        | changes
    )
    return Engine.model_validate(shown)


def images(given, http):
    (found,) = registry.images(given, ask=http, client=Aws().client)
    return found


def test_the_digest_is_what_the_registry_has_for_the_tag(http):
    check, fields = images(engine(), http)
    assert (check.verdict, fields) == ("ok", {"digest": DIGEST})
    assert DIGEST in check.detail and "--pin" in check.detail


def test_a_stated_digest_that_is_the_registry_s(http):
    assert images(engine(digest=DIGEST), http)[0].verdict == "ok"


def test_a_tag_that_has_moved_is_a_failure(http):
    check, _ = images(engine(digest=OTHER), http)
    assert (check.verdict, DIGEST in check.detail, OTHER in check.detail) == ("fail", True, True)


def test_an_image_that_is_not_there(http):
    check, fields = images(engine(image="public.ecr.aws/neuron/vllm:2.0"), http)
    assert (check.verdict, fields) == ("fail", {})
    assert "public.ecr.aws has no neuron/vllm:2.0" in check.detail


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (registry.RegistryAnswer(0, {}), "answers nothing"),
        (registry.RegistryAnswer(500, {}), "answers 500"),
        (registry.RegistryAnswer(200, {}), "without a digest"),
        (registry.RegistryAnswer(200, {"docker-content-digest": "sha256:../../x"}), "answers 200"),
        (registry.RegistryAnswer(401, {"www-authenticate": "Basic"}), "wants a login"),
        (registry.RegistryAnswer(401, {"www-authenticate": 'Bearer realm="file:///etc/passwd"'}), "wants a login"),
    ],
)
def test_a_registry_that_answers_otherwise(answer, words):
    with pytest.raises(LookupError, match=words):
        registry.digest(IMAGE, ask=lambda *given: answer, client=Aws().client)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff"])
def test_a_token_that_is_none(body):
    challenge = {"www-authenticate": 'Bearer realm="https://r/token"'}
    answers = {"HEAD": registry.RegistryAnswer(401, challenge), "GET": registry.RegistryAnswer(200, {}, body)}
    with pytest.raises(LookupError, match="gives no token"):
        registry.digest(IMAGE, ask=lambda method, *_: answers[method], client=Aws().client)


PRIVATE = f"{ACCOUNT}.dkr.ecr.us-east-2.amazonaws.com/mine/vllm:1.0"


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [({"imageDetails": [{"imageDigest": DIGEST}]}, "ok"), (error("ImageNotFoundException"), "fail")],
)
def test_a_private_registry_of_ecr_is_asked_by_its_api(answer, verdict):
    client = Aws(DescribeImages=answer).client
    ((check, _),) = registry.images(engine(image=PRIVATE), ask=None, client=client)
    assert check.verdict == verdict


def test_an_image_of_no_registry_is_not_looked_for():
    assert list(registry.images(engine(image="specdecode.invalid/x/vllm:local"), ask=None, client=None)) == []


def test_a_digest_is_written_beside_its_image_and_a_stated_one_stays(tmp_path):
    """For every engine that ships: the file stays what it was but for the line."""
    for shipped in (assets_dir() / "engines").glob("*.yaml"):
        if "image" not in yaml.safe_load(shipped.read_text()):
            continue  # it extends another, whose image it has
        file = tmp_path / shipped.name
        file.write_text(shipped.read_text())
        assert registry.pin(file, {"digest": DIGEST}) == ["digest"]
        assert registry.pin(file, {"digest": OTHER}) == []
        document = yaml.safe_load(file.read_text())
        assert document.pop("digest") == DIGEST
        assert document == yaml.safe_load(shipped.read_text())
        assert [
            line for line in file.read_text().splitlines() if "sha256:" not in line
        ] == shipped.read_text().splitlines()
