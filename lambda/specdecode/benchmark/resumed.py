"""Whether the server of a resumed arm is the one that was measured before, as far as it tells."""

from collections.abc import Iterator

from specdecode.benchmark.enough import Enough
from specdecode.benchmark.results import BadResults
from specdecode.records import ServerFacts

SAME_START_S = 1.0
"""Difference from which two starts of a server are not the same: some compute it anew from the machine's clock."""


def resumed(
    variant: str, before: ServerFacts | None, now: ServerFacts, enough: Enough, *, same_urls: bool
) -> Iterator[str]:
    """A sentence if a server with settings of its own was restarted between the arm's requests of this round, or may
    have been. Raises BadResults if they were measured on another server. `same_urls`: as `Options.same_urls`; without
    it the run itself keeps the settings.
    """
    done, wanted = enough.progress(variant)
    if not done or (before is None and not same_urls):
        return
    if before is None:
        raise BadResults(f"nothing tells on which server {variant} was measured before: choose another --out")
    other = "give what was measured, or choose another --out"
    if (same_urls and before.url not in ("", now.url)) or before.model not in ("", now.model):
        raise BadResults(
            f"{variant} was measured at {before.url} as {before.model}, and this is {now.url} as {now.model}: {other}"
        )
    if before.drafted != now.drafted and None not in (before.drafted, now.drafted):
        raise BadResults(
            f"{variant} was measured with k = {before.drafted}, and its server has k = {now.drafted}: {other}"
        )
    if not same_urls or done >= wanted:
        return
    how = "does not tell whether it was restarted"
    if before.started_at and now.started_at:
        how = "was restarted" if abs(now.started_at - before.started_at) > SAME_START_S else ""
    if how:
        yield f"The server of {variant} {how} between its requests: were its settings the same?"
