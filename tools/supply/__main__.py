"""Write the licence list and the bill of materials: `python -m tools.supply` (`make lock` does)."""

import sys

from tools.supply import licences_page, sbom
from tools.supply.inventory import BILL, UnknownLicence, inventory
from tools.supply.locks import ROOT


def main() -> int:
    """Write both files; 2 if a licence is unknown."""
    try:
        parts = inventory()
    except UnknownLicence as error:
        print(error, file=sys.stderr)
        return 2
    (ROOT / "docs" / "licences.md").write_text(licences_page.render(parts))
    BILL.write_text(sbom.render(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
