"""Arms from records, and one arm against another: speed-ups, intervals, verdicts."""
