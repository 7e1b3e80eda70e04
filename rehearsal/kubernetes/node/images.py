"""Pulling images: every image is there, unless its name is malformed or a fault says otherwise."""

import asyncio
from collections.abc import Callable

from rehearsal.kubernetes import pod_rules
from rehearsal.kubernetes.node.container import Container, Event
from rehearsal.kubernetes.node.settings import NodeSettings


class ImagePuller:
    """Pulls for one pod. `event` writes an Event about the pod; `changed` publishes the pod's status."""

    def __init__(self, settings: NodeSettings, *, event: Event, changed: Callable[[], None]) -> None:
        self._settings = settings
        self._event = event
        self._changed = changed

    async def pull(self, container: Container) -> None:
        """Wait until the container's image is there. A failed pull is tried again, later each time."""
        image, wait = container.spec["image"], self._settings.backoff
        while problem := self._problem(image):
            reason, message = problem
            self._event("Warning", "Failed", message)
            self._wait_for(container, reason, message)
            await asyncio.sleep(min(wait, 1.0))
            if reason == "ErrImagePull":
                message = f'Back-off pulling image "{image}"'
                self._event("Normal", "BackOff", message)
                self._wait_for(container, "ImagePullBackOff", message)
            await asyncio.sleep(wait)
            wait = min(wait * 2, self._settings.backoff * 30)
        container.state = {"waiting": {"reason": "ContainerCreating"}}
        self._event("Normal", "Pulled", f'Container image "{image}" already present on machine')

    def _wait_for(self, container: Container, reason: str, message: str) -> None:
        container.state = {"waiting": {"reason": reason, "message": message}}
        self._changed()

    def _problem(self, image: str) -> tuple[str, str] | None:
        """Reason and message of a failed pull; None if the image is there."""
        if pod_rules.malformed_image(image):
            return "InvalidImageName", f'Failed to apply default image tag "{image}": couldn\'t parse image name'
        missing = self._settings.faults.image_pull_error
        return ("ErrImagePull", f'Failed to pull image "{image}": not found') if missing and missing in image else None
