"""What the pipeline does with the Kubernetes API."""
