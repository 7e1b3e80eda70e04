"""Every part that is installed or lies in this repository: version, licence, and where it is used."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import yaml
from license_expression import get_spdx_licensing
from packaging.utils import canonicalize_name

from tools.supply.locks import ENVIRONMENT, OPTIONAL, ROOT, draws_in, installed, locked

SPDX = get_spdx_licensing()
BILL = ROOT / "docs" / "sbom.cdx.json"
POLICY: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "policy.yaml").read_text())
USED = {
    "requirements/lambda": "bundle: Lambdas and pods",
    "requirements": "CDK and command line",
    "requirements/dev": "tests",
    "requirements/build": "installation",
    "requirements/cloud": "rehearsal: embedded AWS",
    "requirements/image": "rehearsal: pods",
    "requirements/audit": "make audit",
}
"""Lock -> what its parts are for. A part of the first lock is not listed again for the next two, which include it."""
_EXPRESSION = re.compile(r"\(*[\w.+-]+\)*( (AND|OR|WITH) \(*[\w.+-]+\)*)*")
"""Pattern of an SPDX expression. It matches neither prose nor the text of a whole licence."""
_INCLUDED = {
    "requirements": ("requirements/lambda",),
    "requirements/dev": ("requirements/lambda", "requirements"),
}


class UnknownLicence(ValueError):
    """The metadata names no known licence. The message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One version of a library, of a model's training text, or of a file that somebody else wrote."""

    name: str
    version: str
    licence: str
    """An SPDX expression."""
    purl: str
    """Package URL."""
    used: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """Package URLs of its dependencies."""
    files: tuple[Path, ...] = ()
    """Its place in this repository."""


def inventory() -> tuple[Part, ...]:
    """Every part, by kind and name: installed by Python, installed by npm, or in this repository.

    Raises UnknownLicence, which names all parts without a known licence.
    """
    return (*_python(), *_npm(), *_vendored())


def allowed(licence: str) -> bool:
    """Whether the policy allows an SPDX expression: any side of an OR, all sides of an AND."""
    expression = SPDX.parse(licence)
    operator = getattr(expression, "operator", None)
    if operator is None:
        return str(expression) in POLICY["allowed"]
    sides = [allowed(str(side)) for side in expression.args]
    return any(sides) if operator.strip() == "OR" else all(sides)


def licence_of(package: Distribution) -> str:
    """SPDX expression of an installed package: as read by us, as declared, or by the spelling of its metadata."""
    name, metadata = canonicalize_name(package.name), package.metadata
    if name in POLICY["read"]:
        return str(POLICY["read"][name])
    stated = [metadata.get("License-Expression"), metadata.get("License")]
    stated += [text.split("::")[-1].strip() for text in metadata.get_all("Classifier") or () if text[:7] == "License"]
    for text in stated:
        candidate = POLICY["spellings"].get(text, text)
        if candidate and _EXPRESSION.fullmatch(candidate) and not SPDX.validate(candidate).errors:
            return str(SPDX.parse(candidate))
    raise UnknownLicence(
        f"{name}: its metadata says {[text[:60] for text in stated if text]}; read the licence file of its wheel and "
        "add it below 'read' (or the wording below 'spellings') in tools/supply/policy.yaml"
    )


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _python() -> list[Part]:
    """The parts that the locks name."""
    remembered = _remembered()
    parts: dict[str, Part] = {}
    problems: list[str] = []
    for lock, purpose in USED.items():
        entries, here = locked(lock), installed(lock)
        included = {name for inner in _INCLUDED.get(lock, ()) for name in locked(inner)}
        for name in sorted(entries.keys() - included):
            version = entries[name][0]
            purl = _purl(name, version)
            if purl not in parts:
                try:
                    licence, needs = _described(lock, name, here.get(name), entries, remembered.get(purl))
                except UnknownLicence as error:
                    problems.append(str(error))
                    continue
                parts[purl] = Part(name=name, version=version, licence=licence, purl=purl, used=(), needs=needs)
            parts[purl] = replace(parts[purl], used=(*parts[purl].used, purpose))
    if problems:
        raise UnknownLicence("\n".join(problems))
    return sorted(parts.values(), key=lambda part: (part.name, part.version))


def _described(
    lock: str, name: str, package: Distribution | None, entries: Mapping[str, Any], remembered: dict[str, Any] | None
) -> tuple[str, tuple[str, ...]]:
    """Licence and dependencies of an entry of a lock: of the installed package, or from the last bill of materials."""
    if package is not None and package.version == entries[name][0]:
        needs = {canonicalize_name(need.name) for need in draws_in(package)}
        return licence_of(package), tuple(_purl(need, entries[need][0]) for need in sorted(needs))
    if remembered is None or lock not in OPTIONAL:
        raise UnknownLicence(f"{name}: install {lock}.txt into {ENVIRONMENT[lock]} (see the Makefile), then make lock")
    return str(remembered["licenses"][0]["expression"]), tuple(remembered["needs"])


def _remembered() -> dict[str, dict[str, Any]]:
    """Package URL -> component, with its dependencies, of the last bill of materials."""
    document = json.loads(BILL.read_text())
    needs = {entry["ref"]: entry.get("dependsOn", []) for entry in document["dependencies"]}
    return {part["bom-ref"]: {**part, "needs": needs[part["bom-ref"]]} for part in document["components"]}


def _npm() -> list[Part]:
    """Packages that package-lock.json names, with version and licence."""
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    return [
        Part(
            name=(name := path.removeprefix("node_modules/")),
            version=entry["version"],
            licence=entry["license"],
            purl=f"pkg:npm/{name.replace('@', '%40')}@{entry['version']}",
            used=("CDK and tests, by npm",),
        )
        for path, entry in sorted(packages.items())
        if path
    ]


def _vendored() -> list[Part]:
    """The parts in this repository."""
    return [
        Part(
            name=entry["name"], version=entry["version"], licence=entry["licence"], purl=entry["purl"],
            used=(entry["used"],), files=tuple(ROOT / name for name in entry["files"]),
        )
        for entry in POLICY["vendored"]
    ]  # fmt: skip
