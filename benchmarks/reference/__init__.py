"""What the client's benchmarks share: a server with a known schedule, and processes whose cost is measured."""
