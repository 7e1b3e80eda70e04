"""Sources of staged weights: the Hugging Face hub at a revision, or a prefix of the bucket.

The hub's library has errors that become exit codes here, and no message holds a token.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from specdecode import aws
from specdecode.exit_codes import Exit
from specdecode.pod.bucket import Bucket
from specdecode.pod.program import PodError
from specdecode.untrusted import Unreadable, below

SKIPPED = ("original/*", "*.gguf", "*.onnx", "*.h5", "*.msgpack", "*.md", ".gitattributes", "*.png", "*.jpg")
"""Files of a hub repository that no engine loads."""
PICKLED = (".bin", ".pt", ".pth")
"""Weights that no engine loads where there are safetensors; one that reads slices of tensors reads only those."""
OPTION = "--safetensors"
"""Option of the programs that move weights: refuse a folder without safetensors before a byte of it is moved."""


@dataclass(frozen=True)
class SourceFile:
    """One file to stage. `version` changes when its bytes change."""

    path: str
    size: int
    version: str
    sha256: str | None = None
    """Hash of the bytes at the source. None if the source does not state one."""


class ImportSource:
    """A user's own weights, uploaded below `imports/`."""

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self._bucket, self._prefix = bucket, prefix

    def files(self) -> list[SourceFile]:
        found = self._bucket.listing(self._prefix)
        if not found:
            raise PodError(
                Exit.NOT_FOUND,
                f"s3://{self._bucket.name}/{self._prefix} is empty: upload the model's files there first "
                f"(aws s3 cp --recursive MODEL_FOLDER s3://{self._bucket.name}/{self._prefix})",
            )
        return [SourceFile(_below(path), size, version=etag) for path, (size, etag) in sorted(found.items())]

    def fetch(self, file: SourceFile, folder: Path) -> Path:
        path = folder / file.path
        self._bucket.download(self._prefix + file.path, path)
        return path

    def about(self) -> dict[str, Any]:
        return {"import_prefix": self._prefix}


class Hub:
    """A request to the hub about the repository `name` at `revision`."""

    def __init__(self, name: str, revision: str, *, token: str | None) -> None:
        self.library = import_module("huggingface_hub")  # slow to import, and not everybody needs it
        self._errors = import_module("huggingface_hub.errors")
        self.name, self.revision, self.token = name, revision, token

    def call(self, request: Callable[[], Any]) -> Any:
        """The result of `request`, or PodError: for the hub's own errors first, then for errors on the way."""
        errors = self._errors
        try:
            return request()
        except errors.GatedRepoError as error:
            raise PodError(
                Exit.NO_TOKEN,
                f"{self.name} is gated: accept its licence on huggingface.co with the account whose token is in "
                f"Secrets Manager ({'a token was given' if self.token else 'no token was given'})",
            ) from error
        except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.RemoteEntryNotFoundError) as error:
            message = f"{self.name}@{self.revision} is not on the hub: {self._readable(error)}"
            raise PodError(Exit.NOT_FOUND, message) from error
        except (errors.HTTPError, errors.XetDownloadError, OSError, RuntimeError) as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise
            refused = isinstance(error, errors.HfHubHTTPError) and error.response.status_code in (401, 403)
            what = "refused the token" if refused and self.token else "failed"
            message = f"the Hugging Face hub {what} for {self.name}: {self._readable(error.__cause__ or error)}"
            raise PodError(Exit.NO_TOKEN if refused else Exit.UNAVAILABLE, message) from error

    def _readable(self, error: BaseException) -> str:
        """The library's message, without the token and without the queries of URLs, which are signed."""
        text = re.sub(r"(https?://[^\s?]+)\?[^\s'\"]+", r"\1?…", str(error))
        return text.replace(self.token, "…") if self.token else text


class HubSource(Hub):
    """A model of the hub, read with the hub's own library."""

    def __init__(self, model: str, revision: str, *, token: str | None) -> None:
        super().__init__(model, revision, token=token)
        self._commit = revision

    def files(self) -> list[SourceFile]:
        api = self.library.HfApi(token=self.token)
        info = self.call(lambda: api.model_info(self.name, revision=self.revision, files_metadata=True))
        self._commit = info.sha
        siblings = {item.rfilename: item for item in info.siblings}
        safetensors = any(name.endswith(".safetensors") for name in siblings)
        skipped = (*SKIPPED, *(f"*{suffix}" for suffix in PICKLED if safetensors))
        return [
            SourceFile(
                path=_below(name), size=item.size, version=item.blob_id, sha256=item.lfs.sha256 if item.lfs else None
            )
            for name, item in sorted(siblings.items())
            if not any(fnmatch.fnmatch(name, pattern) for pattern in skipped)
        ]

    def fetch(self, file: SourceFile, folder: Path) -> Path:
        asked = {"revision": self._commit, "local_dir": str(folder), "token": self.token}
        return Path(self.call(lambda: self.library.hf_hub_download(self.name, file.path, **asked)))

    def about(self) -> dict[str, Any]:
        return {"model": self.name, "revision": self.revision, "commit": self._commit}


Source = HubSource | ImportSource


def _below(path: str) -> str:
    """The path of a file of a source. It must lie in the folder, wherever the folder is put."""
    try:
        return below(path)
    except Unreadable as error:
        raise PodError(Exit.CORRUPT, str(error)) from None


def hub_token() -> str | None:
    """The token from HF_TOKEN, or from the Secrets Manager secret that HF_TOKEN_SECRET names. None without either.

    Raises PodError for a token that no header can hold: the libraries would put it into their message, and so into the
    log.
    """
    if token := os.environ.get("HF_TOKEN"):
        return _plain(token, "HF_TOKEN")
    if not (secret := os.environ.get("HF_TOKEN_SECRET")):
        return None
    try:
        value = aws.client("secretsmanager").get_secret_value(SecretId=secret)["SecretString"].strip()
    except Exception as error:
        raise PodError(Exit.NO_TOKEN, f"cannot read the secret {secret}: {error}") from error
    return _plain(value, f"the secret {secret}") if value else None


def _plain(token: str, where: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._~+/=-]+", token):
        raise PodError(
            Exit.NO_TOKEN,
            f"{where} is not a token alone. Store the token as plain text: no name before it, no JSON, no second line",
        )
    return token


def demand_safetensors(name: str, paths: Iterable[str]) -> None:
    """Raises PodError, with what to do, unless a file of the folder `name` is in safetensors."""
    paths = sorted(paths)
    if any(path.endswith(".safetensors") for path in paths):
        return
    pickled = [path for path in paths if path.endswith(PICKLED)]
    found = f"only {pickled[0]}" if pickled else "no file of that kind"
    raise PodError(
        Exit.CORRUPT,
        f"{name} has no weights in safetensors ({found}), and this engine reads no other format: take a model or a "
        "head that is published in it, or convert the files, upload them below imports/ and name them with "
        "import_prefix",
    )
