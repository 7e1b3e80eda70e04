"""CloudFormation custom resources that stand between a deployment and a node that costs money.

`update`: refuses to change what a node hangs on while a run has it; `code`: the code of runs that are under way.
`drain`: keeps Karpenter until its last instance is gone. `teardown`: ends runs and gives the node up before pipeline
and its watchdog are deleted. `ready`: fails a deployment whose pools Karpenter could make no node for. `beat`: runs the
watchdog once before its alarm exists. `retention`: lets the log groups that AWS makes by itself forget their lines.
"""
