"""Types of conditions, and errors of replicas."""
