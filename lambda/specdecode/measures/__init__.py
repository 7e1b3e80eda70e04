"""Every figure is computed here, once: records and servers' counters become numbers with their formulas (ADR 71)."""
