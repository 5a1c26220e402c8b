"""Pods: effective requests, affinity and spread constraints, GPU requests, relevant changes."""
