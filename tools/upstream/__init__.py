"""Upstream as the judge: what AWS, EKS, Karpenter and Neuron publish at our pins, fetched and compared.

`lock` says which files and with which hash, `fetch` brings them, `tests/upstream` compares, `make upstream` does both.

Why it is so: ADR 124.
"""
