"""Telemetry of a node's devices: collected as often as it changes (`collector`), aggregated over
windows before it leaves the node (`windows`), and as the readings that the console shows
(`readings`)."""
