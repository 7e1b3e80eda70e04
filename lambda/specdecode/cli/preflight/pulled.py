"""What pods pull: the engine's images from their registries, and models from the bucket or from Hugging Face."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdecode import finished, names
from specdecode.cli.preflight.check import Ask, Check, unless
from specdecode.experiment import Engine
from specdecode.experiment.variants import ModelRef
from specdecode.store import Store

ACCEPT = (
    "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
)
PRIVATE = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
TIMEOUT_S = 10
HUB = "https://huggingface.co/api/models/"


@dataclass(frozen=True)
class RegistryAnswer:
    """The answer to an HTTP request. `status` is 0 without an answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


Http = Callable[[str, str, Mapping[str, str]], RegistryAnswer]
"""Method, address, headers -> answer. Header names are in lower case."""


def http(method: str, url: str, headers: Mapping[str, str]) -> RegistryAnswer:
    """Sends the request over the network. It takes TIMEOUT_S at most."""
    try:
        request = urllib.request.Request(url, method=method, headers=dict(headers))  # noqa: S310 (https, or our own test)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as found:  # noqa: S310
            code, given, body = found.status, found.headers, found.read(1 << 20)
    except urllib.error.HTTPError as error:
        code, given, body = error.code, error.headers, b""
    except (OSError, ValueError):
        return RegistryAnswer(0, {})
    return RegistryAnswer(code, {name.lower(): value for name, value in given.items()}, body)


def split(image: str) -> tuple[str, str, str]:
    """`registry/repository:tag` as registry, repository and tag (`latest` without one)."""
    host, _, rest = image.partition("/")
    repository, _, tag = rest.partition(":")
    return host, repository, tag or "latest"


def digest(image: str, *, ask: Http, client: Callable[[str], Any]) -> str:
    """The digest that the image's tag names today. LookupError says why it cannot be read."""
    host, repository, tag = split(image)
    if private := PRIVATE.fullmatch(host):
        of = {"registryId": private["account"], "repositoryName": repository, "imageIds": [{"imageTag": tag}]}
        absent = ("ImageNotFoundException", "RepositoryNotFoundException")
        if (there := unless(absent, lambda: client("ecr").describe_images(**of))) is None:
            raise LookupError(f"there is no {repository}:{tag} in the registry of {private['account']}")
        return str(there["imageDetails"][0]["imageDigest"])
    url = f"https://{host}/v2/{repository}/manifests/{tag}"
    headers = {"Accept": ACCEPT}
    answer = ask("HEAD", url, headers)
    if answer.status == 401:
        token = _token(answer.headers.get("www-authenticate", ""), host=host, repository=repository, ask=ask)
        answer = ask("HEAD", url, headers | {"Authorization": f"Bearer {token}"})
    found = answer.headers.get("docker-content-digest", "")
    if answer.status == 404:
        raise LookupError(f"{host} has no {repository}:{tag}")
    if answer.status != 200 or not DIGEST.fullmatch(found):
        raise LookupError(f"{host} answers {answer.status or 'nothing'}{'' if found else ', without a digest'}")
    return found


def _token(challenge: str, *, host: str, repository: str, ask: Http) -> str:
    """An anonymous token to pull images, from the address in the registry's challenge. Only https is used."""
    given = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if not given.get("realm", "").startswith("https://"):
        raise LookupError(f"{host} wants a login")
    query = {"service": given.get("service", host), "scope": f"repository:{repository}:pull"}
    answer = ask("GET", f"{given['realm']}?{urllib.parse.urlencode(query)}", {})
    try:
        body = json.loads(answer.body)
        return str(body.get("token") or body["access_token"])
    except (ValueError, KeyError, AttributeError):
        raise LookupError(f"{host} gives no token to pull {repository} (HTTP {answer.status})") from None


def images(engine: Engine, *, ask: Http, client: Callable[[str], Any]) -> Iterator[tuple[Check, dict[str, str]]]:
    """Each image as the registry has it against the engine's file: the check, and the fields that would pin it."""
    for field, image, stated in (
        ("digest", engine.image, engine.digest),
        ("tools_digest", engine.tools_image, engine.tools_digest),
    ):
        if image is None or split(image)[0].endswith(".invalid"):
            continue
        name = f"image {image}"
        try:
            found = digest(image, ask=ask, client=client)
        except LookupError as error:
            fix = "check the name and the network; a pod could not pull it either"
            yield Check(name, "fail", str(error), fix), {}
            continue
        if stated is None:
            fix = f"`specdecode preflight --pin` writes it into assets/engines/{engine.name}.yaml ({field})"
            check = Check(name, "ok", f"{found}, not pinned: {fix}")
        elif stated == found:
            check = Check(name, "ok", f"{found}, as the engine's file states")
        else:
            fix = f"find out who moved it and why; pods go on to pull {stated} by its digest"
            detail = f"the tag has moved: the engine's file states {stated}, the registry has {found}"
            check = Check(name, "fail", detail, fix)
        yield check, {field: found}


def pin(file: Path, fields: Mapping[str, str]) -> list[str]:
    """Write digests beside their images; stated ones and comments stay. Returns the fields that were written."""
    lines, written = file.read_text(encoding="utf-8").splitlines(), []
    for field, value in fields.items():
        beside = "image:" if field == "digest" else "tools_image:"
        if any(line.startswith(f"{field}:") for line in lines):
            continue
        place = next((number for number, line in enumerate(lines) if line.startswith(beside)), None)
        if place is None:  # the image is that of the file which this one extends
            continue
        lines.insert(place + 1, f"{field}: {value}")
        written.append(field)
    if written:
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return written


def stored(model: ModelRef, store: Store) -> Check | None:
    """The check's result from the bucket. None if the hub must be asked."""
    name = f"model {model.id}"
    if finished.find(store, model.prefix).content:
        return Check(name, "ok", "is in the bucket")
    if not model.import_prefix:
        return None
    where = store.url(model.import_prefix)
    if store.keys(model.import_prefix):
        return Check(name, "ok", f"will be imported from {model.import_prefix}")
    return Check(name, "fail", f"nothing lies in {where}", f"aws s3 cp --recursive <folder> {where}")


def on_the_hub(model: ModelRef, ask: Http) -> Check:
    """Whether Hugging Face has the model at its revision (`/api/models/<id>/revision/<rev>` of the hub's API)."""
    status, name = ask("HEAD", f"{HUB}{model.id}/revision/{model.revision}", {}).status, f"model {model.id}"
    gated = "; it is gated: whether the token has access shows at staging, before the node is held"
    if status == 200:
        return Check(name, "ok", f"can be downloaded from Hugging Face{gated if model.gated else ''}")
    if status in (401, 403, 404):
        detail = f"Hugging Face answers {status}: no such model, none at revision {model.revision}, or a private one"
        return Check(name, "fail", detail, "check its id and its revision")
    return Check(name, "fail", f"Hugging Face answers {status or 'nothing'}", "check the network, and try again")


def token(ask: Ask) -> Check:
    """The secret with the Hugging Face token, which gated models need. The value is not read."""
    name, secret, where = "Hugging Face token", names.HF_TOKEN_SECRET, f"--region {ask.region}"
    manager = ask.client("secretsmanager")
    found = unless("ResourceNotFoundException", lambda: manager.describe_secret(SecretId=secret))
    if found is None:
        fix = f"aws secretsmanager create-secret --name {secret} --secret-string file://token.txt {where}"
        return Check(name, "fail", f"there is no secret {secret} in {ask.region}", fix)
    if found.get("DeletedDate"):
        fix = f"aws secretsmanager restore-secret --secret-id {secret} {where}"
        return Check(name, "fail", f"the secret {secret} is being deleted", fix)
    return Check(name, "ok", f"the secret {secret} exists; its value is tried at staging")
