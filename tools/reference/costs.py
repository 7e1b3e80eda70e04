"""docs/reference/costs.md: every price, the cost at rest, and the cost of each preset."""

from specdecode.experiment import Capacity, prices
from specdecode.experiment.prices import HOURS_A_MONTH
from specdecode.experiment.standing import (
    DESTROY_MINUTES,
    LOG_GB_A_DAY,
    OBSERVATIONS_A_NODE_AND_MINUTE,
    standing_parts,
    standing_price,
)
from specdecode.planning.offers import Offer, offers

from constructs_lib.settings.fields import Settings
from tools.reference import between, page, table

INTRODUCTION = """\
List prices of us-east-2 in US dollars. Nothing is looked up at AWS: each figure is data of this repository, and this
page, `specdecode plan`, the question of `specdecode run` and the stack's output `HourlyCost` compute with the same
table."""

AT_REST = f"""## While nothing runs

What a deployment with default settings costs, whether a run goes on or not. An amount that is assumed depends on what
happens in the cluster: {LOG_GB_A_DAY:g} GB of logs a day, {OBSERVATIONS_A_NODE_AND_MINUTE} observations a node and
minute. Nobody has measured them."""

DESTROY = """\
`specdecode destroy` takes {low} to {high} minutes, most of it until Lambda gives its network interfaces back. The
cluster is billed meanwhile, ${usd:.2f} at most. With `removal_policy=retain` (the default) the bucket stays, and what
lies in it goes on to cost what the table below says for a month. With `bucket_encryption=kms` its key stays too, for
${key:g} a month."""

RUNS = """## What a run costs

Of a first run on an empty bucket, at the published price of the node (AWS publishes none of a trn2.3xlarge). `at
most`: every step lasts until its deadline. A run that could cost more than its request accepts (`specdecode run PRESET
--accept-cost USD`, in the console `"accept_cost": USD`) is refused; without an amount, one that could cost more than
`accept_cost_above_usd` of the [settings](../settings.md) (${bound:,.0f}). Models come through the NAT gateway once; in
S3 they and their artifacts stay until you delete them."""

RESERVED = """\
From an On-Demand Capacity Reservation the node costs the same for every hour from its making to its cancelling, used
or not; a Capacity Block is paid for in advance, from its start to its end. A run adds nothing to either, so only what
is beside it counts against `accept_cost_above_usd`."""

TABLE = """## The table of prices

`compared`: when the figure was last held against a public copy of AWS's page; AWS's own page is named. Free tiers are
left out."""


def render() -> str:
    low, high = DESTROY_MINUTES
    parts = standing_parts()
    return page(
        "Costs",
        INTRODUCTION,
        AT_REST,
        table(
            ("what", "USD an hour", "USD a month"),
            [
                (
                    part.what + (" (assumed)" if part.assumed else ""),
                    f"{part.usd_per_hour:.3f}",
                    f"{part.usd_per_hour * HOURS_A_MONTH:.0f}",
                )
                for part in parts
            ]
            + [("**together**", f"**{standing_price():.2f}**", f"**{standing_price() * HOURS_A_MONTH:.0f}**")],
        ),
        f"{prices.extended_support(Settings().kubernetes_version)} (extended support), until you upgrade.",
        DESTROY.format(low=low, high=high, usd=standing_price() * high / 60, key=prices.KEY.usd),
        RUNS.format(bound=Capacity().accept_cost_above),
        table(
            ("preset", "on", "node, hours", "node", "at most", "staging", "S3, a month", "`--accept-cost`"),
            [_row(offer) for offer in offers()],
        ),
        RESERVED,
        TABLE,
        table(
            ("what", "USD", "per", "AWS's page", "compared"),
            [(p.what, f"{p.usd:g}", p.unit, p.source, f"{p.seen}" if p.seen else "no") for p in prices.PRICES],
        ),
    )


def replaced(text: str) -> str:
    """`text` of the README with the current table of presets."""
    rows = [
        (f"`{each.name}`", each.support, each.engine.name, each.experiment.title, each.experiment.node, each.price)
        for each in offers()
    ]
    head = ("preset", "its engine's support", "engine", "what it compares", "node", "a first run")
    return between(text, "presets", table(head, rows))


def _row(offer: Offer) -> tuple[str, ...]:
    bill, priced = offer.bill, offer.priced
    unknown = f"{bill.longest_node_hours:.1f} hours at your price, and ${bill.most:,.0f}"
    cents = 2 if bill.node.high < 10 else 0
    return (
        f"`{offer.name}`",
        offer.experiment.node,
        f"{bill.node_hours.low:.1f} to {bill.node_hours.high:.1f}",
        f"${bill.node.low:,.{cents}f} to ${bill.node.high:,.{cents}f}" if priced else "at your price",
        f"${bill.most:,.0f}" if priced else unknown,
        f"{bill.staging_gb:,.0f} GB, ${bill.staging.low:,.{cents}f} to ${bill.staging.high:,.{cents}f}",
        f"{bill.storage_gb:,.0f} GB, ${bill.storage_per_month:,.{cents}f}",
        f"{bill.to_accept:,.0f}".replace(",", "") if bill.to_accept else "no need",
    )
