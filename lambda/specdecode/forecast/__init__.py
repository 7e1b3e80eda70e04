"""What speculation would yield, told from a target's answers before anybody rents an accelerator."""
