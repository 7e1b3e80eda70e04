"""Programs for the repository itself. Nothing here is deployed."""
