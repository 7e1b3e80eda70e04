"""Exit codes of the programs in a pod. The pipeline's diagnosis reads them."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit code of a pod's program -> what happened."""

    OK = 0
    BAD_SPECIFICATION = 2
    """The benchmark cannot measure what it was told to."""
    USAGE = 64
    """The program was started with wrong arguments."""
    CORRUPT = 65
    """Bytes differ from their recorded size or SHA-256, or a file is not what it must be."""
    INCOMPLETE = 66
    """A folder that must be there has no COMPLETE.json."""
    NO_TOKEN = 67
    """A gated model: no Hugging Face token, or one that has no access to it."""
    NOT_FOUND = 68
    """No such model, revision or import prefix."""
    UNAVAILABLE = 69
    """The network, S3 or the Hugging Face hub failed, retries included."""
    SERVER_EXITED = 71
    """`vllm serve` ended before it was healthy. Its own code is 1 whatever happened, since a crash of the compiler (70)
    is one of a process below it (aws-neuron-sdk#1369); its log says why.
    """
    NOT_HEALTHY = 72
    """`vllm serve` ran and was not healthy in time."""
    NO_SPACE = 73
    """The local disk is full."""
    NO_ARTIFACT = 74
    """`vllm serve` was healthy and left no artifact."""
    NO_DEVICE = 75
    """The pod sees too few Neuron devices, cannot open them, or their driver is not one that the runtime takes."""
    DAMAGED_ARTIFACT = 76
    """An artifact of the bucket is not what its COMPLETE.json says. The line names the folder and the file."""
    DENIED = 77
    """AWS refused a request: the pod's role lacks a permission."""
    BAD_ANSWER = 78
    """A server answered a smoke test with an error, with no text or without usage."""
    DAMAGED_MODEL = 79
    """A model of the bucket is not what its COMPLETE.json says. The line names the folder and the file."""


PERMANENT = (
    Exit.BAD_SPECIFICATION,
    Exit.USAGE,
    Exit.CORRUPT,
    Exit.INCOMPLETE,
    Exit.DAMAGED_ARTIFACT,
    Exit.DAMAGED_MODEL,
    Exit.NO_TOKEN,
    Exit.NOT_FOUND,
    Exit.NO_DEVICE,
    Exit.DENIED,
)
"""Codes after which another try cannot help. The Job fails at once."""
