"""Containers of the pods that manifests make."""

from pathlib import Path
from typing import Any

from specdecode import names
from specdecode.manifests.early import DEVICES, DRIVER_VERSION

Container = dict[str, Any]


def containers(template: dict[str, Any]) -> dict[str, Container]:
    """All containers of a pod template by name, in the order in which they start."""
    spec = template["spec"]
    return {container["name"]: container for container in [*spec.get("initContainers", ()), *spec["containers"]]}


def engine_of(obj: dict[str, Any]) -> Container:
    """The container of a Job or Deployment that runs the engine, or the one program where none does."""
    found = containers(obj["spec"]["template"])
    return found.get("compile") or found["main"]


DF = """\
#!/bin/sh
echo "Filesystem 1024-blocks Used Available Capacity Mounted on"
echo "disk 9 9 ${FREE_KIB:-99999999999} 1% /"
"""


def make_node(node: Path) -> None:
    """A Trainium node below `node`: 16 devices that can be opened, and a `df` in its `bin` that says FREE_KIB."""
    (node / "dev").mkdir()
    for number in range(16):
        (node / "dev" / f"neuron{number}").touch()
    (node / "bin" / "df").write_text(DF)
    (node / "bin" / "df").chmod(0o755)


def on_node(script: str, node: Path) -> str:
    """The shell source with the node's paths below `node`: devices are `dev/neuron<n>`, `version` is the driver's."""
    return script.replace(DRIVER_VERSION, str(node / "version")).replace(DEVICES, str(node / "dev" / "neuron"))


def pods(objects):
    """(component, object, pod template) of everything that makes pods."""
    for obj in objects:
        if obj["kind"] in ("Job", "Deployment"):
            yield obj["metadata"]["labels"][names.COMPONENT_LABEL], obj, obj["spec"]["template"]
