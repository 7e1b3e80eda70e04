"""The embedded AWS: ministack in a process of its own, with patches where it differs from AWS in a way that matters
here.

`python -m rehearsal.cloud` (in `.rehearsal/cloud`) serves each AWS API that the stacks use on one loopback port, with
IAM enforced. `patches` lists each function of the emulator that we replace, and why. `resource_types` adds types of
CloudFormation. Calls that concern Kubernetes go to the API double over HTTPS (`kubernetes`, `eks`, `kubectl`).

Why it is so: ADR 30.
"""
