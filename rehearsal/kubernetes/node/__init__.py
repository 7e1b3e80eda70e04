"""The nodes: pods run as local processes."""
