"""Every figure, once: what records and servers' counters say, as numbers with their formulas.

Why it is so: ADR 71.
"""
