"""The comparison as data: what a report, a gate and the next run read. Nothing here computes."""
