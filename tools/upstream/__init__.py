"""Compares with upstream: files that AWS, EKS, Karpenter and Neuron publish at our pins.

`lock` says which files and with which hash, `fetch` brings them, `tests/upstream` compares, and `make upstream` does
both.

Why it is so: ADR 124.
"""
