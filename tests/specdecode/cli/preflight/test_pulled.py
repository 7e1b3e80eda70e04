"""What pods pull: digests of images, as a registry answers over HTTP and as they are written into an engine's file;
models, and the token of gated ones.
"""

import json
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from specdecode.cli.preflight import pulled
from specdecode.experiment import assets_dir, load_engine, load_preset
from specdecode.experiment.engine import Engine
from specdecode.store import Store

from tests.local_http import Handler, served
from tests.specdecode.cli.preflight.aws import ACCOUNT, Aws, error, hours
from tests.specdecode.steps.aws_fake import FakeS3

DIGEST = f"sha256:{'a' * 64}"
OTHER = f"sha256:{'b' * 64}"
IMAGE = "public.ecr.aws/neuron/vllm:1.0"


class Registry(Handler):
    """Manifests for who has the token, which anybody gets for the scope of the repository."""

    def do_GET(self):
        query = parse_qs(urlsplit(self.path).query)
        good = query == {"service": ["public.ecr.aws"], "scope": ["repository:neuron/vllm:pull"]}
        self.reply(200 if good else 400, json.dumps({"token": "t0ken"}).encode())

    def do_HEAD(self):
        if self.headers.get("Authorization") != "Bearer t0ken":
            challenge = 'Bearer realm="https://public.ecr.aws/token/",service="public.ecr.aws",scope="aws"'
            return self.reply(401, Www_Authenticate=challenge)
        assert "application/vnd.oci.image.index.v1+json" in self.headers["Accept"]
        known = self.path == "/v2/neuron/vllm/manifests/1.0"
        return self.reply(200 if known else 404, **({"Docker-Content-Digest": DIGEST} if known else {}))


@pytest.fixture(scope="module")
def http():
    """`pulled.http` with the registry on this machine."""
    with served(Registry) as here:
        yield lambda method, url, headers: pulled.http(method, url.replace("https://public.ecr.aws", here), headers)


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
    (found,) = pulled.images(given, ask=http, client=Aws().client)
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
        (pulled.RegistryAnswer(0, {}), "answers nothing"),
        (pulled.RegistryAnswer(500, {}), "answers 500"),
        (pulled.RegistryAnswer(200, {}), "without a digest"),
        (pulled.RegistryAnswer(200, {"docker-content-digest": "sha256:../../x"}), "answers 200"),
        (pulled.RegistryAnswer(401, {"www-authenticate": "Basic"}), "wants a login"),
        (pulled.RegistryAnswer(401, {"www-authenticate": 'Bearer realm="file:///etc/passwd"'}), "wants a login"),
    ],
)
def test_a_registry_that_answers_otherwise(answer, words):
    with pytest.raises(LookupError, match=words):
        pulled.digest(IMAGE, ask=lambda *given: answer, client=Aws().client)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff"])
def test_a_token_that_is_none(body):
    challenge = {"www-authenticate": 'Bearer realm="https://r/token"'}
    answers = {"HEAD": pulled.RegistryAnswer(401, challenge), "GET": pulled.RegistryAnswer(200, {}, body)}
    with pytest.raises(LookupError, match="gives no token"):
        pulled.digest(IMAGE, ask=lambda method, *_: answers[method], client=Aws().client)


PRIVATE = f"{ACCOUNT}.dkr.ecr.us-east-2.amazonaws.com/mine/vllm:1.0"


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [({"imageDetails": [{"imageDigest": DIGEST}]}, "ok"), (error("ImageNotFoundException"), "fail")],
)
def test_a_private_registry_of_ecr_is_asked_by_its_api(answer, verdict):
    client = Aws(DescribeImages=answer).client
    ((check, _),) = pulled.images(engine(image=PRIVATE), ask=None, client=client)
    assert check.verdict == verdict


def test_an_image_of_no_registry_is_not_looked_for():
    assert list(pulled.images(engine(image="specdecode.invalid/x/vllm:local"), ask=None, client=None)) == []


def test_a_digest_is_written_beside_its_image_and_a_stated_one_stays(tmp_path):
    """For every engine that ships: the file stays what it was but for the line."""
    for shipped in (assets_dir() / "engines").glob("*.yaml"):
        if "image" not in yaml.safe_load(shipped.read_text()):
            continue  # it extends another, whose image it has
        file = tmp_path / shipped.name
        file.write_text(shipped.read_text())
        assert pulled.pin(file, {"digest": DIGEST}) == ["digest"]
        assert pulled.pin(file, {"digest": OTHER}) == []
        document = yaml.safe_load(file.read_text())
        assert document.pop("digest") == DIGEST
        assert document == yaml.safe_load(shipped.read_text())
        assert [
            line for line in file.read_text().splitlines() if "sha256:" not in line
        ] == shipped.read_text().splitlines()


@pytest.mark.parametrize(
    ("answer", "verdict", "words"),
    [
        ({"Name": "specdecode/huggingface-token"}, "ok", ""),
        (error("ResourceNotFoundException"), "fail", "create-secret"),
        ({"Name": "specdecode/huggingface-token", "DeletedDate": hours(-1)}, "fail", "restore-secret"),
    ],
)
def test_the_secret_of_gated_models(answer, verdict, words):
    check = pulled.token(Aws(DescribeSecret=answer).ask())
    assert (check.verdict, words in check.fix) == (verdict, True)
    assert ("its value is tried at staging" in check.detail) is (verdict == "ok")


def test_models_in_the_bucket_imported_and_nowhere():
    store, experiment = Store(s3=FakeS3(), bucket="bucket"), load_preset("rehearsal")
    target, draft = experiment.staged
    store.s3.objects[f"{target.import_prefix}/model.safetensors"] = b"x"
    assert pulled.stored(target, store).verdict == "ok"
    absent = pulled.stored(draft, store)
    assert (absent.verdict, "aws s3 cp" in absent.fix) == ("fail", True)
    (qwen, *_) = load_preset("qwen3-32b").staged
    assert pulled.stored(qwen, store) is None


@pytest.mark.parametrize(("status", "verdict"), [(200, "ok"), (404, "fail"), (401, "fail"), (0, "fail")])
def test_models_of_the_hub(status, verdict):
    (qwen, *_) = load_preset("qwen3-32b").staged
    assert pulled.on_the_hub(qwen, lambda *_: pulled.RegistryAnswer(status, {})).verdict == verdict


def test_a_model_is_asked_for_at_its_revision():
    """A pinned commit that is gone is not hidden by the model's main branch."""
    (qwen, *_) = load_preset("qwen3-32b").staged
    pinned = qwen.model_copy(update={"revision": "0123abc"})
    revision = f"/{qwen.id}/revision/0123abc"
    gone = pulled.on_the_hub(
        pinned, lambda _, url, headers: pulled.RegistryAnswer(404 if url.endswith(revision) else 200, {})
    )
    assert (gone.verdict, "0123abc" in gone.detail) == ("fail", True)
