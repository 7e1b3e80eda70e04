"""Stub."""

from pathlib import Path

from rehearsal.kubernetes.node.volumes import MountError
from rehearsal.kubernetes.objects import Json


class Mountpoint:
    async def mount(self, pod: Json, volume: Json, folder: Path) -> None:
        raise MountError("no S3 yet")

    def release(self, pod: Json) -> None:
        pass
