"""The constructs that the stacks are made of: one a file, arguments by keyword only. Each says what it creates and why.

Import this package before `aws_cdk`. The import of `aws_cdk` starts a Node process that would print a long warning
about Node's version on every synth. `specdecode` lies in lambda/: if only requirements.txt was installed, it is found
there.
"""

import os
import sys
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parents[1] / "lambda")
if _PACKAGE not in sys.path:
    sys.path.append(_PACKAGE)
for _name, _value in {
    "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": ",".join(map(str, range(18, 40))),
    "JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION": "1",
    "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
}.items():
    os.environ.setdefault(_name, _value)
