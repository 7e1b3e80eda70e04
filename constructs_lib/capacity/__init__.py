"""Nodes: where they come from, what drives their devices, and what keeps one from being left behind."""
