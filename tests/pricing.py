"""A price for nodes of which AWS publishes none, so that every preset can be planned."""

from specdecode.experiment import Capacity, prices

PRICED = Capacity(price_per_node_hour=prices.TRN2_48XLARGE.usd)
"""The default node's price for every node."""
