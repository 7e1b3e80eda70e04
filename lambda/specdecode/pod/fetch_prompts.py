"""Bring a set of prompts from the Hugging Face hub to the bucket:
`python3 -m specdecode.pod.fetch_prompts --bucket B --key prompts/… --sha256 … --repo … --revision … --file …`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specdecode.exit_codes import Exit
from specdecode.pod.bucket import Bucket
from specdecode.pod.program import Parser, PodError, run, say
from specdecode.pod.sources import Hub, hub_token
from specdecode.prompts import BadPromptSet, digest, read_set
from specdecode.untrusted import MAX_FILE_BYTES, Unreadable, read_file


def main(arguments: Sequence[str]) -> None:
    """Fetch one file as the command line says."""
    parser = Parser(description=__doc__)
    for name in ("bucket", "key", "sha256", "repo", "revision", "file"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args(arguments)
    hub = Hub(options.repo, options.revision, token=hub_token())
    fetch(Bucket(options.bucket), options.key, hub=hub, file=options.file, sha256=options.sha256)


def fetch(bucket: Bucket, key: str, *, hub: Hub, file: str, sha256: str) -> None:
    """Put `file` of the hub's data set under `key`, if it is there, is a set of prompts, and has this hash."""
    where = f"{file} of {hub.name}@{hub.revision[:12]}"
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="prompts-") as folder:
        path = _download(hub, file, folder, where)
        data = _bytes(path, where)
        if (found := digest(data)) != sha256:
            raise PodError(
                Exit.CORRUPT,
                f"{where} has the SHA-256 {found}, and {sha256} is meant. Look at the file; if it is the right one, "
                "write its hash into the experiment",
            )
        try:
            prompts = read_set(data, name="prompts")
        except BadPromptSet as error:
            raise PodError(Exit.CORRUPT, f"{where}: {error}") from None
        bucket.upload(path, key, tags={"sha256": sha256, "source": f"{hub.name}@{hub.revision}"})
    say(f"{len(prompts.rows)} prompts of {where} -> s3://{bucket.name}/{key}")


def _download(hub: Hub, file: str, folder: str, where: str) -> Path:
    """Refuse a file that is too large before it is fetched."""
    asked: dict[str, Any] = {"repo_type": "dataset", "revision": hub.revision}
    api = hub.library.HfApi(token=hub.token)
    found = hub.call(lambda: api.get_paths_info(hub.name, [file], **asked))
    size = next((getattr(item, "size", None) for item in found if item.path == file), None)
    if size is None:
        raise PodError(Exit.NOT_FOUND, f"there is no {where} on the hub: look for its file and commit there")
    if size > MAX_FILE_BYTES:
        raise PodError(Exit.CORRUPT, f"{where} is larger than {MAX_FILE_BYTES // 2**20} MiB: take a part of it")
    asked |= {"local_dir": folder, "token": hub.token}
    return Path(hub.call(lambda: hub.library.hf_hub_download(hub.name, file, **asked)))


def _bytes(path: Path, where: str) -> bytes:
    try:
        return read_file(path)
    except Unreadable as error:
        raise PodError(Exit.CORRUPT, f"{where}: {error}") from None


if __name__ == "__main__":
    run(main)
