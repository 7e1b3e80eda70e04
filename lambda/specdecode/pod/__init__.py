"""Programs that run in a pod, from the bundle. Standard library and boto3 only: any engine image can run them."""
