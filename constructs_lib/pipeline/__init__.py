"""The state machine, its functions, what they may do, and what starts and watches runs."""
