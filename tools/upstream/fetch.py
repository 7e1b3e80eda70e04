"""Fetches by the lock: over HTTPS, three tries a file. A file whose hash differs from the lock's is not kept."""

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tools.upstream.lock import CHART, MANIFEST, Folder, Source, sha256

TRIES = 3
TIMEOUT_S = 30.0
LIMIT = 32 * 1024 * 1024
"""Most bytes of a file. The largest is a changelog of 2.3 MB."""
TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})


class Unfetched(Exception):
    """A file could not be fetched. The text says from where and why."""


def fetch(folder: Folder, *, anew: bool = False, say: Callable[[str], None] = print, pause_s: float = 2.0) -> list[str]:
    """Bring missing or changed files into the folder. Returns a line for each failure, with its reason.

    `anew`: bring every file that the lock names, whatever its hash is, to take over new hashes.
    """
    problems: list[str] = []
    for name, source in folder.lock.items():
        brought = 0
        token = ""
        try:
            for path, digest in source.files.items() if anew else folder.wanted(name):
                where = folder.root / name / path
                if not anew and where.is_file() and sha256(where.read_bytes()) == digest:
                    continue
                if source.is_chart and not token:
                    token = _token(source, pause_s)
                known = None if anew else digest
                _keep(where, _get(address(source, path, known), known, token=token, pause_s=pause_s))
                brought += 1
        except Unfetched as problem:
            problems.append(f"{name}: {problem}")
        say(f"{name} {source.revision}: {brought} fetched, {len(source.files) + source.is_chart} in all")
    return problems


def address(source: Source, path: str, digest: str | None) -> str:
    """The address of a file (OCI distribution specification 1.1 for files in a registry)."""
    if path == MANIFEST and source.is_chart:
        return f"{source.url}/manifests/" + (f"sha256:{digest}" if digest else source.revision)
    if path == CHART and source.is_chart:
        return f"{source.url}/blobs/sha256:{digest}"
    return f"{source.url}/{source.revision}/{urllib.parse.quote(path)}"


def _token(source: Source, pause_s: float) -> str:
    """A public token (Amazon ECR Public user guide, "Registry authentication", HTTP API)."""
    origin, _, repository = source.url.partition("/v2/")
    host = urllib.parse.urlsplit(origin).netloc
    query = urllib.parse.urlencode({"service": host, "scope": f"repository:{repository}:pull"})
    answer = _get(f"{origin}/token/?{query}", None, token="", pause_s=pause_s)
    try:
        return str(json.loads(answer)["token"])
    except (ValueError, KeyError, TypeError):
        raise Unfetched(f"{origin}/token/ answered without a token") from None


def _get(url: str, digest: str | None, *, token: str, pause_s: float) -> bytes:
    """The bytes at `url`. Their SHA-256 is checked if one is given."""
    why = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(pause_s * attempt)
        request = urllib.request.Request(url)  # noqa: S310 (the lock's own addresses)
        request.add_header("Accept", "application/vnd.oci.image.manifest.v1+json, */*")
        if token:
            # A blob is answered with a redirect to a store that refuses a second kind of authorization.
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
                data = bytes(answer.read(LIMIT + 1))
                left = answer.length
        except urllib.error.HTTPError as error:
            why = f"HTTP {error.code}"
            if error.code not in TRANSIENT:
                break
            continue
        except (OSError, http.client.HTTPException) as error:
            why = str(getattr(error, "reason", error))
            continue
        if len(data) > LIMIT:
            raise Unfetched(f"{url}: more than {LIMIT >> 20} MiB")
        if left:
            why = f"cut off after {len(data)} bytes"
            continue
        if digest and sha256(data) != digest:
            raise Unfetched(
                f"{url}: SHA-256 {sha256(data)}, the lock has {digest}. Look why before you change the lock"
            )
        return data
    raise Unfetched(f"{url}: {why}")


def _keep(where: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    where.parent.mkdir(parents=True, exist_ok=True)
    part = where.with_name(f"{where.name}.part")
    part.write_bytes(data)
    part.replace(where)
