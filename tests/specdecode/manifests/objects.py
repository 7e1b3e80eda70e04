"""What the tests of objects share."""

from specdecode import names


def pods(objects):
    """(component, object, pod template) of everything that makes pods."""
    for obj in objects:
        if obj["kind"] in ("Job", "Deployment"):
            yield obj["metadata"]["labels"][names.COMPONENT_LABEL], obj, obj["spec"]["template"]
