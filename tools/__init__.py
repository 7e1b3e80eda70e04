"""What the repository needs for itself; nothing here is deployed."""
