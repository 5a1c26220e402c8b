"""Pods: defaults, validation, subresources and columns."""
