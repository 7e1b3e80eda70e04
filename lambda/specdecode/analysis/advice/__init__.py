"""What the advisor learns from a comparison, and which arm it would measure next."""
