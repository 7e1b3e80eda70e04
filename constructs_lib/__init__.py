"""The constructs of which the stacks are composed: one a file, keyword-only, each saying what it creates and why.

Import this before `aws_cdk`, whose Node process starts at once: that would print a page about Node's version on every
synth. `specdecode` lies in lambda/: where only requirements.txt was installed, it is found there.
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
