"""Fleets: which simulated nodes exist and how they behave, from a YAML file or a preset."""
