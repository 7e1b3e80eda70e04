"""The bundle: `specdecode`, its data and its dependencies as one reproducible zip. Nothing here imports CDK.

The same bytes are the Lambdas' code and what the pods fetch from S3: CPython 3.11, x86_64.

Why it is so: ADR 43.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "bundle"
PLATFORM = "x86_64-manylinux_2_17"
"""Lambda's Python 3.11 and its image are Amazon Linux 2, glibc 2.26 (Lambda developer guide, "Supported runtimes")."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The oldest time that a zip can hold. Every entry has it."""
IGNORED = ("__pycache__", ".pyc", ".egg-info")
KEPT = 4
"""Number of bundles, and of sets of dependencies, that are kept beside the newest. Every change of a source makes one.
"""


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A bundle on disk, and the SHA-256 of its bytes."""

    path: Path
    sha256: str


class BundleError(RuntimeError):
    """The dependencies could not be fetched. The message says what was tried and what failed."""


def build_bundle(*, output: Path = BUILD, root: Path = ROOT) -> Bundle:
    """Build the bundle below `output`, or return the one that exists for the same sources.

    The dependencies are installed once for each content of the lock requirements/lambda.txt. Only that needs the
    network, and only files with the hashes of the lock are accepted.
    """
    sources = sorted(_sources(root))
    requirements = root / "requirements" / "lambda.txt"
    digest = hashlib.sha256(requirements.read_bytes())
    for name, path in sources:
        digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    target = output / f"specdecode-{digest.hexdigest()[:16]}.zip"
    if not target.exists():
        dependencies = _dependencies(requirements, output)
        entries = sources + [(path.relative_to(dependencies).as_posix(), path) for path in _files(dependencies)]
        _write(target, sorted(entries))
        _prune(output, "specdecode-*.zip", keep=target)
        _prune(output, "dependencies-*", keep=dependencies)
    return Bundle(path=target, sha256=hashlib.sha256(target.read_bytes()).hexdigest())


def _sources(root: Path) -> Iterator[tuple[str, Path]]:
    """Name in the zip and path of every file of the package and of assets/."""
    package = Path("specdecode")
    for folder, place in ((root / "lambda" / package, package), (root / "assets", package / "assets")):
        for path in _files(folder):
            yield (place / path.relative_to(folder)).as_posix(), path


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.endswith(IGNORED) for part in path.parts):
            yield path


def _dependencies(requirements: Path, output: Path) -> Path:
    """The folder with the installed dependencies of `requirements`."""
    target = output / f"dependencies-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]}"
    if target.exists():
        return target
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output) as scratch:
        fresh = Path(scratch) / "dependencies"
        command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
        command += ["--only-binary", ":all:", "--python-version", "3.11", "--python-platform", PLATFORM]
        command += ["--requirement", str(requirements), "--target", str(fresh)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise BundleError(
                f"The dependencies of the bundle ({requirements}) could not be installed; the first build needs a "
                f"package registry.\n{result.stderr.strip()}"
            )
        shutil.rmtree(fresh / "bin", ignore_errors=True)
        (fresh / ".lock").unlink(missing_ok=True)
        try:
            fresh.rename(target)
        except OSError:
            if not target.is_dir():  # else another build came first, with the same content
                raise
    return target


def _prune(output: Path, pattern: str, *, keep: Path) -> None:
    """Remove all matches but the KEPT newest. Another build may remove the same files at the same time."""
    others = [(path.stat().st_mtime, path) for path in output.glob(pattern) if path != keep]
    for _, path in sorted(others, reverse=True)[KEPT:]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _write(target: Path, entries: list[tuple[str, Path]]) -> None:
    """Write a zip that depends on names and contents only. It appears whole or not at all, even if another build writes
    it too.
    """
    partial = target.with_suffix(f".{os.getpid()}.partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, path in entries:
            info = zipfile.ZipInfo(name, EPOCH)
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
    partial.replace(target)


if __name__ == "__main__":
    built = build_bundle()
    print(f"{built.path}\nSHA-256 {built.sha256}")
