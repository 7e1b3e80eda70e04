"""What the pipeline does with the Kubernetes API, and who may use the accelerator node."""
