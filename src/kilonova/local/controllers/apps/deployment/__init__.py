"""Deployments: one ReplicaSet per template, and rollouts from the old ones to the new."""
