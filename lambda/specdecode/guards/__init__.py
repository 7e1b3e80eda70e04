"""CloudFormation custom resources that stand between a deployment and a node that costs money.

`update`: refuses to change what a node hangs on while a run has it. `drain`: keeps Karpenter until its last instance
is gone. `teardown`: ends runs and gives the node up before the pipeline and its watchdog are deleted.
"""
