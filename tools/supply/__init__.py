"""What this repository is made of: docs/licences.md and docs/sbom.cdx.json, written by `make lock` from the locks."""
