"""EKS AL2023 Neuron AMI releases, each with what it carries, and the engines that they are for. No CDK here.

An exact list: a release that does not exist leaves the EC2NodeClass at `AMIsReady=False`, and no node ever comes.
"""

from dataclasses import dataclass

DRA_KUBELET = (1, 34, 2)
"""Oldest kubelet on which the Neuron DRA driver works (aws-neuron-sdk, deploy/eks/dra.rst)."""


@dataclass(frozen=True, kw_only=True)
class NeuronAmi:
    """One release of `amazon-eks-node-al2023-x86_64-neuron-*`."""

    release: str
    driver: str
    """aws-neuronx-dkms, without its `-dkms`."""
    kernel: str
    """kernel6.12, without its `.amzn2023`."""
    kubelet: dict[str, str]
    """Kubernetes minor version for which it was released -> kubelet."""


_RELEASES = (
    ("v20251120", "2.24.7.0", "6.12.55-74.119", "1.34.2", None),
    ("v20251209", "2.24.7.0", "6.12.58-82.121", "1.34.2", None),
    ("v20251217", "2.24.7.0", "6.12.58-82.121", "1.34.2", None),
    ("v20260107", "2.25.4.0", "6.12.58-82.121", "1.34.2", None),
    ("v20260114", "2.25.4.0", "6.12.63-84.121", "1.34.2", "1.35.0"),
    ("v20260116", "2.25.4.0", "6.12.63-84.121", "1.34.2", "1.35.0"),
    ("v20260120", "2.25.4.0", "6.12.63-84.121", "1.34.2", "1.35.0"),
    ("v20260129", "2.25.4.0", "6.12.64-87.122", "1.34.2", "1.35.0"),
    ("v20260209", "2.25.4.0", "6.12.66-88.122", "1.34.3", "1.35.0"),
    ("v20260224", "2.25.4.0", "6.12.68-92.122", "1.34.4", "1.35.0"),
    ("v20260304", "2.26.5.0", "6.12.68-92.122", "1.34.4", "1.35.2"),
    ("v20260318", "2.26.10.0", "6.12.73-95.123", "1.34.4", "1.35.2"),
    ("v20260403", "2.26.10.0", "6.12.77-99.140", "1.34.4", "1.35.2"),
    ("v20260409", "2.27.4.0", "6.12.77-99.140", "1.34.6", "1.35.3"),
    ("v20260415", "2.27.4.0", "6.12.79-101.147", "1.34.6", "1.35.3"),
    ("v20260423", "2.27.4.0", "6.12.79-101.147", "1.34.7", "1.35.4"),
    ("v20260505", "2.27.4.0", "6.12.80-106.156", "1.34.7", "1.35.4"),
    ("v20260610", "2.28.0.0", "6.12.90-120.164", "1.34.8", "1.35.5"),
    ("v20260618", "2.28.0.0", "6.12.90-120.164", "1.34.9", "1.35.6"),
    ("v20260625", "2.28.0.0", "6.12.92-122.166", "1.34.9", "1.35.6"),
    ("v20260714", "2.29.0.0", "6.12.94-123.180", "1.34.9", "1.35.6"),
)
NEURON_AMIS = {
    release: NeuronAmi(
        release=release,
        driver=driver,
        kernel=kernel,
        kubelet={"1.34": old} | ({"1.35": new} if new else {}),
    )
    for release, driver, kernel, old, new in _RELEASES
}
"""awslabs/amazon-eks-ami, CHANGELOG.md at 81fec2e (2026-07-23): every release with a kubelet of DRA_KUBELET or newer.

A later release is a line more: its driver, kernel and kubelets are in that file.
"""

_PANIC = "its kernel 6.12.110 panics (awslabs/amazon-eks-ami#2845; v20261012 has another)"
_ABANDONED = "it was abandoned (CHANGELOG.md of awslabs/amazon-eks-ami)"
REFUSED_AMIS = {
    "v20260128": _ABANDONED,
    "v20260311": _ABANDONED,
    "v20260930": _PANIC,
    "v20261003": _PANIC,
}
"""Releases that exist or existed and must not be used -> why. None of them is in NEURON_AMIS."""


@dataclass(frozen=True, kw_only=True)
class EngineGeneration:
    """Engine images that share a Neuron runtime, and so a range of kernel drivers."""

    runtime: str
    driver_from: str
    """Oldest driver that the runtime accepts."""
    driver_below: str | None
    """First driver that the runtime does not accept (release-notes/components/runtime.rst); None: none is known."""
    ami: str
    """EKS AMI release to run it on."""

    def takes(self, driver: str) -> bool:
        """Whether the runtime accepts the kernel driver."""
        below = self.driver_below
        return version(driver) >= version(self.driver_from) and (below is None or version(driver) < version(below))


ENGINE_GENERATIONS = {
    "sdk-2.26": EngineGeneration(runtime="2.28.23", driver_from="2.24", driver_below="2.29", ami="v20260224"),
    "sdk-2.31": EngineGeneration(runtime="2.33.10", driver_from="2.27", driver_below=None, ami="v20260714"),
    "sdk-2.32": EngineGeneration(runtime="2.34.10", driver_from="2.29", driver_below=None, ami="v20260714"),
    "sdk-2.33": EngineGeneration(runtime="2.35.30", driver_from="2.29", driver_below=None, ami="v20260714"),
}
"""`sdk-2.26` is the only one whose engine image takes a draft model (0.9.1); the later ones take EAGLE-type drafts."""

STAGING_AMI = "v20260625"
"""EKS AL2023 release of all nodes without devices: its standard variant, from the same CHANGELOG.md."""


def version(text: str) -> tuple[int, ...]:
    """A version of numbers and dots, to compare."""
    return tuple(int(part) for part in text.split("."))
