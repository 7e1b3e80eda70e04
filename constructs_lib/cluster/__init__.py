"""The EKS cluster, ours or one that exists, its network and what is installed in it for everybody."""
