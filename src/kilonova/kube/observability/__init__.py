"""Structured logs and Prometheus metrics of a process."""
