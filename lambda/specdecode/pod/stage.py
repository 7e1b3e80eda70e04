"""Bring a model's weights to the bucket: `python3 -m specdecode.pod.stage --bucket B --prefix models/…/ …`.

It works file by file (download, verify, rescale if asked, upload, delete). So a small disk is enough, and a second try
goes on where the first ended: a file that lies there is read, and kept if its bytes are those of its tag (ADR 213).
COMPLETE.json is written last.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from specdecode import s3_keys
from specdecode.exit_codes import Exit
from specdecode.finished import FileEntry
from specdecode.pod.bucket import WORKERS, Bucket, entry_of
from specdecode.pod.fp8 import rescale_file
from specdecode.pod.program import Parser, PodError, run, say
from specdecode.pod.sources import OPTION, HubSource, ImportSource, Source, SourceFile, demand_safetensors, hub_token

INDEX = "model.safetensors.index.json"


def main(arguments: Sequence[str]) -> None:
    """Stage one model as the command line says."""
    parser = Parser(description=__doc__)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--prefix", required=True, help="destination in the bucket, models/<slug>@<revision>/")
    parser.add_argument("--import-prefix", help="copy from this prefix of the bucket")
    parser.add_argument("--model", help="or download this model of the Hugging Face hub")
    parser.add_argument("--revision", default="main")
    parser.add_argument("--rescale-fp8", action="store_true", help="from OCP FP8 E4M3 to Neuron's FP8_EXP4")
    parser.add_argument(OPTION, action="store_true", help="refuse weights in any other format")
    options = parser.parse_args(arguments)
    if bool(options.import_prefix) == bool(options.model):
        parser.error("give either --import-prefix or --model")
    bucket = Bucket(options.bucket)
    there = bucket.complete(options.prefix)
    if there is not None:
        if options.safetensors:
            demand_safetensors(options.prefix, (entry.path for entry in there))
        say(f"{options.prefix} is already complete")
        return
    source: Source = (
        ImportSource(bucket, options.import_prefix)
        if options.import_prefix
        else HubSource(options.model, options.revision, token=hub_token())
    )
    stage(bucket, options.prefix, source, rescale=options.rescale_fp8, safetensors=options.safetensors)


def stage(bucket: Bucket, prefix: str, source: Source, *, rescale: bool, safetensors: bool = False) -> None:
    """Copy every file of `source` below `prefix` and finish the folder."""
    files = [file for file in source.files() if file.path != s3_keys.COMPLETE]
    if safetensors:
        demand_safetensors(prefix, (file.path for file in files))
    say(f"{len(files)} files, {sum(file.size for file in files) / 2**30:.2f} GiB -> {bucket.url(prefix)}")
    tensors = _tensors(source, files) if rescale else set()

    def one(file: SourceFile) -> FileEntry:
        return _stage_file(bucket, prefix, source, file, rescale=rescale, tensors=tensors)

    with ThreadPoolExecutor(WORKERS) as pool:
        entries = list(pool.map(one, files))
    bucket.finish(prefix, entries, about={"source": source.about(), "rescaled_fp8": rescale})
    say(f"{prefix} is complete")


def _tensors(source: Source, files: list[SourceFile]) -> set[str]:
    """Names of all tensors of a checkpoint of several files; empty for a checkpoint of one."""
    for file in files:
        if file.path == INDEX:
            with _scratch() as folder:
                return set(json.loads(source.fetch(file, folder).read_text("utf-8"))["weight_map"])
    return set()


def _stage_file(
    bucket: Bucket, prefix: str, source: Source, file: SourceFile, *, rescale: bool, tensors: set[str]
) -> FileEntry:
    key = prefix + file.path
    version = f"{file.version}{'-neuron-fp8' if rescale else ''}"
    known = bucket.tags(key)
    if known.get("source") == version and "sha256" in known:
        with _scratch() as folder:
            bucket.download(key, folder / "stored")
            entry = entry_of(file.path, folder / "stored")
        if entry.sha256 == known["sha256"]:
            return entry
        say(f"{file.path}: what lies in the bucket is damaged, and is brought again")
    with _scratch() as folder:
        path = source.fetch(file, folder)
        entry = entry_of(file.path, path)
        if entry.size != file.size or (file.sha256 and entry.sha256 != file.sha256):
            raise PodError(Exit.CORRUPT, f"{file.path}: the downloaded bytes differ from what the source promises")
        if rescale and path.suffix == ".safetensors" and rescale_file(path, names=tensors):
            entry = entry_of(file.path, path)
        bucket.upload(path, key, tags={"sha256": entry.sha256, "source": version})
    say(f"{file.path}: {file.size / 2**20:.1f} MiB")
    return entry


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder in the working directory that is deleted afterwards."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="stage-") as folder:
        yield Path(folder)


if __name__ == "__main__":
    run(main)
