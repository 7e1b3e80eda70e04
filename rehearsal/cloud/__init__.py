"""The embedded AWS: ministack in a process of its own, with the differences to AWS that matter here put right.

`python -m rehearsal.cloud` (in `.rehearsal/cloud`) serves every AWS API that the stacks use on one loopback port, with
IAM enforced. `patches` lists each function of the emulator that is replaced, and why; `resources` adds CloudFormation
types; what concerns Kubernetes goes to the API double over HTTPS (`kubernetes`, `eks`, `kubectl`).

Why it is so: ADR 30.
"""
