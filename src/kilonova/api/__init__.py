"""The objects: one module per API group, and what every object has in common.

Types here are what goes over the wire, camelCase included; nothing here talks to anything.
"""
