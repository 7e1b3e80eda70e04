"""docs/sbom.cdx.json: the inventory as a CycloneDX 1.6 bill of materials, the same bytes for the same parts."""

import hashlib
import json
import uuid
from collections.abc import Sequence

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from specdecode import __version__

from tools.supply.inventory import Part


def render(parts: Sequence[Part]) -> str:
    """The bill of materials of `parts`."""
    bom = Bom()
    bom.metadata.component = root = Component(
        name="specdecode",
        version=__version__,
        type=ComponentType.APPLICATION,
        bom_ref="specdecode",
        licenses=[LicenseExpression("Apache-2.0")],
    )
    components = {part.purl: _component(part) for part in parts}
    bom.components.update(components.values())
    bom.register_dependency(root, components.values())
    for part in parts:
        bom.register_dependency(components[part.purl], [components[need] for need in part.needs])
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    del document["metadata"]["timestamp"]
    del document["serialNumber"]
    identity = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    document["serialNumber"] = identity.urn
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _component(part: Part) -> Component:
    return Component(
        name=part.name,
        version=part.version,
        type=ComponentType.FILE if part.files else ComponentType.LIBRARY,
        bom_ref=part.purl,
        purl=PackageURL.from_string(part.purl),
        licenses=[LicenseExpression(part.licence)],
        hashes=[
            HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(path.read_bytes()).hexdigest())
            for path in part.files
            if len(part.files) == 1
        ],
        properties=[Property(name="specdecode:used", value=used) for used in part.used],
    )
