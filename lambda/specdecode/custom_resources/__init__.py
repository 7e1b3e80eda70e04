"""CloudFormation custom resources that protect a run from a deployment, and the account from a forgotten node.

`settings`: refuses to lose what the deployed stack was given. `update`: refuses a change of what a node depends on
while a run has it. `code`: the same for the code of runs that go on. `drain`: keeps Karpenter until its last instance
has ended. `teardown`: ends runs and gives the node up before the pipeline and its watchdog are deleted. `ready`: fails
a deployment for whose pools Karpenter could make no node. `beat`: runs the watchdog once before its alarm exists.
`retention`: sets the retention of log groups that AWS makes by itself.
"""
