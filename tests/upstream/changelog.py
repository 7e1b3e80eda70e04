"""amazon-eks-ami's CHANGELOG.md, read: which release has a Neuron AMI for which Kubernetes minor, and what is in it.

A tag of the repository is no release by itself: v20260707 and v20260709 are tags without AMIs.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

NEURON = "AL2023_x86_64_NEURON"


@dataclass(frozen=True)
class NeuronVariant:
    """The AL2023 Neuron AMI of one release and one Kubernetes minor."""

    kubelet: str
    driver: str
    """aws-neuronx-dkms without its `-dkms`: 2.29.0.0."""
    kernel: str
    """Without its `.amzn2023`."""


def neuron_variants(changelog: str, minors: Collection[str]) -> dict[str, dict[str, NeuronVariant]]:
    """Release (`v20260714`) -> Kubernetes minor -> variant; of `minors` only."""
    found: dict[str, dict[str, NeuronVariant]] = {}
    for release, body in _parts(changelog, r"^# AMI Release (v\d{8})\b"):
        found[release] = {
            minor: _variant(release, minor, part)
            for minor, part in _minors(body)
            if minor in minors and f"neuron-{minor}-{release}<" in part
        }
    return found


def standard_releases(changelog: str) -> dict[str, set[str]]:
    """Release -> the Kubernetes minors for which it has the AL2023 standard AMI for x86_64."""
    return {
        release: set(re.findall(rf"amazon-eks-node-al2023-x86_64-standard-(1\.\d+)-{release}<", body))
        for release, body in _parts(changelog, r"^# AMI Release (v\d{8})\b")
    }


def _parts(text: str, heading: str) -> Iterator[tuple[str, str]]:
    pieces = re.split(heading, text, flags=re.MULTILINE)
    yield from zip(pieces[1::2], pieces[2::2], strict=True)


def _minors(body: str) -> Iterator[tuple[str, str]]:
    for minor, part in _parts(body, r"<summary><b>Kubernetes (1\.\d+)</b></summary>"):
        yield minor, part.partition("</details>")[0]


def _variant(release: str, minor: str, part: str) -> NeuronVariant:
    kubelet = re.search(rf">(1\.\d+\.\d+)-{release[1:]}<", part)
    assert kubelet, (release, minor)
    return NeuronVariant(
        kubelet=kubelet[1],
        driver=_package(part, "aws-neuronx-dkms").removesuffix("-dkms"),
        kernel=_package(part, r"kernel[\d.]*").removesuffix(".amzn2023"),
    )


def _package(part: str, name: str) -> str:
    """The version of a package in the Neuron column of the package table; a cell spans several columns."""
    (table,) = (
        table for table in part.split("<table>") if f"<th>{NEURON}</th>" in table and "<th>Package</th>" in table
    )
    column = re.findall(r"<th>(.*?)</th>", table).index(NEURON)
    row = re.search(rf"<td>{name}</td>(.*?)</tr>", table, re.DOTALL)
    assert row, name
    at = 1
    for span, text in re.findall(r'<td(?: colspan="(\d+)")?>(.*?)</td>', row[1]):
        at += int(span or 1)
        if column < at:
            return str(text)
    raise AssertionError(f"{name}: no cell for the column {column}")
