"""Startup, liveness and readiness probes, and lifecycle hooks."""
