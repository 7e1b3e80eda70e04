"""Sources of staged weights: the Hugging Face hub at a revision, or a prefix of the bucket."""

from __future__ import annotations

import fnmatch
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from specdecode import aws
from specdecode.exit_codes import Exit
from specdecode.pod.bucket import Bucket
from specdecode.pod.hub import Hub
from specdecode.pod.program import PodError
from specdecode.untrusted import Unreadable, below

SKIPPED = ("original/*", "*.gguf", "*.onnx", "*.h5", "*.msgpack", "*.md", ".gitattributes", "*.png", "*.jpg")
"""Files of a hub repository that no engine loads."""
SKIPPED_BESIDE_SAFETENSORS = ("*.bin", "*.pt", "*.pth")


@dataclass(frozen=True)
class SourceFile:
    """One file to stage. `version` changes when its bytes change."""

    path: str
    size: int
    version: str
    sha256: str | None = None
    """Hash of the bytes at the source. None if the source does not state one."""


class Source(Protocol):
    def files(self) -> list[SourceFile]: ...

    def fetch(self, file: SourceFile, folder: Path) -> Path: ...

    def about(self) -> dict[str, Any]: ...


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


class HubSource:
    """A model of the Hugging Face hub, read with its own library."""

    def __init__(self, model: str, revision: str, *, token: str | None) -> None:
        self._hub = Hub(model, revision, token=token)
        self._model, self._revision, self._token = model, revision, token
        self._commit = revision

    def files(self) -> list[SourceFile]:
        info = self._hub.call(
            lambda: self._hub.library.HfApi(token=self._token).model_info(
                self._model, revision=self._revision, files_metadata=True
            )
        )
        self._commit = info.sha
        siblings = {item.rfilename: item for item in info.siblings}
        safetensors = any(name.endswith(".safetensors") for name in siblings)
        skipped = (*SKIPPED, *(SKIPPED_BESIDE_SAFETENSORS if safetensors else ()))
        return [
            SourceFile(
                path=_below(name),
                size=item.size,
                version=item.blob_id,
                sha256=item.lfs.sha256 if item.lfs else None,
            )
            for name, item in sorted(siblings.items())
            if not any(fnmatch.fnmatch(name, pattern) for pattern in skipped)
        ]

    def fetch(self, file: SourceFile, folder: Path) -> Path:
        return Path(
            self._hub.call(
                lambda: self._hub.library.hf_hub_download(
                    self._model, file.path, revision=self._commit, local_dir=str(folder), token=self._token
                )
            )
        )

    def about(self) -> dict[str, Any]:
        return {"model": self._model, "revision": self._revision, "commit": self._commit}


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
