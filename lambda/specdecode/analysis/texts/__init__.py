"""The answer in words: one text for every form of the report."""
