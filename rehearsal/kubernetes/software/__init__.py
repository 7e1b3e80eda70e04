"""The cluster's own software, as Helm and the EKS add-ons install it: what takes room, and what then works."""
