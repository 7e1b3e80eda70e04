"""The controllers of a cluster: each looks at the whole state after a change of the kinds that it watches, and acts."""
