"""Verify the engine's output and upload it: `python3 -m specdecode.pod.upload --bucket B --artifact compiled/…/`.

The last container of the compile pod. The engine has ended, and nothing that it wrote is run or followed: a link out of
the artifact's folder would put a file of this container, such as its token, into the bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from specdecode import s3_keys
from specdecode.exit_codes import Exit
from specdecode.finished import FileEntry
from specdecode.pod.bucket import WORKERS, Bucket, entry_of, everything
from specdecode.pod.program import Parser, PodError, run, say
from specdecode.untrusted import Unreadable, below


def main(arguments: Sequence[str]) -> None:
    """Upload one artifact as the command line says."""
    parser = Parser(description=__doc__)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--artifact", required=True, help="destination in the bucket, compiled/<fingerprint>/")
    parser.add_argument("command", nargs="*", help="what made it, after --; for people who look")
    options = parser.parse_args(arguments)
    bucket = Bucket(options.bucket)
    if bucket.complete(options.artifact) is not None:
        say(f"{options.artifact} is already complete")
        return
    upload(bucket, options.artifact, Path.cwd() / options.artifact, about={"command": options.command})


def _within(folder: Path) -> list[Path]:
    """What the server left. Raises PodError if a part cannot be read."""
    try:
        return everything(folder) if folder.is_dir() else []
    except OSError as error:
        raise PodError(Exit.CORRUPT, f"the server left what cannot be read: {error}") from None


def upload(bucket: Bucket, prefix: str, folder: Path, *, about: dict[str, object]) -> None:
    """Verify what the server left in `folder`, upload it and finish the artifact. A file of the name that says that it
    is finished would be overwritten: it stays here.
    """
    own = folder / s3_keys.COMPLETE
    paths = sorted(path for path in _within(folder) if (path.is_symlink() or path.is_file()) and path != own)
    if not paths:
        raise PodError(Exit.NO_ARTIFACT, f"the server was healthy and wrote nothing to {folder}")
    try:
        for path in paths:
            below(prefix + path.relative_to(folder).as_posix())
    except Unreadable as error:
        message = f"the server left a file whose name cannot be stored (backslash, control character, length): {error}"
        fix = "change the arm's settings or the engine's image: compiled once more, it would be the same"
        raise PodError(Exit.CORRUPT, f"{message}; {fix}") from None
    if links := [path.relative_to(folder).as_posix() for path in paths if _leads_out(path, folder)]:
        message = f"the server left links that lead out of its artifact: {', '.join(links[:3])}"
        raise PodError(Exit.CORRUPT, message)
    if empty := [path.name for path in paths if path.stat().st_size == 0 and path.suffix in (".pt", ".safetensors")]:
        raise PodError(Exit.NO_ARTIFACT, f"the server left empty files: {', '.join(empty[:3])}")

    def one(path: Path) -> FileEntry:
        entry = entry_of(path.relative_to(folder).as_posix(), path)
        bucket.upload(path, prefix + entry.path, tags={"sha256": entry.sha256})
        return entry

    with ThreadPoolExecutor(WORKERS) as pool:
        entries = list(pool.map(one, [path for path in paths if path.is_file()]))
    bucket.finish(prefix, entries, about=about)
    say(f"{prefix} is complete: {len(entries)} files, {sum(entry.size for entry in entries) / 2**30:.2f} GiB")


def _leads_out(path: Path, folder: Path) -> bool:
    """Whether a file of the artifact lies elsewhere (by a link), or nowhere."""
    try:
        return not path.resolve(strict=True).is_relative_to(folder.resolve(strict=True))
    except (OSError, RuntimeError):
        return True


if __name__ == "__main__":
    run(main)
