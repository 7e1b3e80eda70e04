"""The upstream files that are compared: address, revision and SHA-256 of each. None of them is in this repository."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

LOCK = Path(__file__).with_name("lock.json")
MANIFEST, CHART = "manifest.json", "chart.tgz"
"""Files of a registry's chart in a folder: the image manifest, whose hash is in the lock, and the chart that it names.
"""


class Absent(Exception):
    """A file is not in the folder. The text says which, and why it is needed."""


class Changed(Exception):
    """A file's bytes differ from the lock."""


class Source(BaseModel):
    """Files of one revision of one of upstream's repositories, or one chart of a registry."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    """Address before the path of each file. For a chart: its repository in the registry's API (`…/v2/<repository>`)."""
    revision: str
    """A tag or a commit; a chart's version."""
    why: str = ""
    """Why the revision is not the deployed one. None if it is."""
    files: dict[str, str] = Field(min_length=1)
    """Path -> SHA-256, as hexadecimal digits. A chart has one, `manifest.json`: its digest."""

    @property
    def is_chart(self) -> bool:
        """Whether it comes from a registry."""
        return set(self.files) == {MANIFEST}


Lock = dict[str, Source]


def read_lock(path: Path = LOCK) -> Lock:
    """Source's name -> source. Raises ValueError (pydantic's) if the file is no such lock."""
    return {name: Source.model_validate(value) for name, value in json.loads(path.read_text("utf-8")).items()}


def sha256(data: bytes) -> str:
    """Hash of `data` as hexadecimal digits, as the lock has it."""
    return hashlib.sha256(data).hexdigest()


def layer(manifest: bytes) -> str:
    """SHA-256 of the chart that an image manifest names. Raises ValueError if it names none."""
    kind = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
    found: Any = json.loads(manifest)
    for part in found.get("layers", ()):
        if part.get("mediaType") == kind:
            return str(part["digest"]).removeprefix("sha256:")
    raise ValueError(f"the image manifest has no layer {kind}")


class Folder:
    """A folder with upstream's files as `<source>/<path>`. A file is read only if its hash is the lock's."""

    def __init__(self, root: Path, lock: Lock) -> None:
        self.root = root
        self.lock = lock

    def wanted(self, name: str) -> Iterator[tuple[str, str]]:
        """Path and SHA-256 of every file of a source. For a chart only the manifest, until the manifest is there."""
        source = self.lock[name]
        yield from source.files.items()
        if source.is_chart and (self.root / name / MANIFEST).is_file():
            yield CHART, layer(self.read(name, MANIFEST))

    def read(self, name: str, path: str) -> bytes:
        """The bytes of a file. Raises Absent, Changed, or KeyError for a file that the lock does not have."""
        source = self.lock[name]
        digest = layer(self.read(name, MANIFEST)) if source.is_chart and path == CHART else source.files[path]
        where = self.root / name / path
        if not where.is_file():
            raise Absent(f"{name}/{path} ({source.url} at {source.revision}) is not in {self.root}")
        data = where.read_bytes()
        if sha256(data) != digest:
            raise Changed(f"{where} has SHA-256 {sha256(data)}, {LOCK.name} has {digest} for {source.revision}")
        return data
