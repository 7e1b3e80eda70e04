"""Nodes: where they come from, what drives their devices, and what ends a node that is left behind."""
