"""Addresses, ports, TLS, and what a connection meets."""
