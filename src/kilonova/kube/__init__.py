"""Talking to Kubernetes, and controllers that do."""
