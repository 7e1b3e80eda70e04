"""The controllers of a cluster: each looks at the whole state when something it watches changed, and acts."""
