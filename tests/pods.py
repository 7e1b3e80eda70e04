"""Containers of the pods that manifests make."""

from __future__ import annotations

from typing import Any

Container = dict[str, Any]


def containers(template: dict[str, Any]) -> dict[str, Container]:
    """All containers of a pod template by name, in the order in which they start."""
    spec = template["spec"]
    return {container["name"]: container for container in [*spec.get("initContainers", ()), *spec["containers"]]}


def engine_of(obj: dict[str, Any]) -> Container:
    """The container of a Job or Deployment that runs the engine, or the one program where none does."""
    found = containers(obj["spec"]["template"])
    return found.get("compile") or found["main"]
