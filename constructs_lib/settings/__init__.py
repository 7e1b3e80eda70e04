"""What a deployment can choose, what it must satisfy, and what it costs. Nothing here makes a resource."""
