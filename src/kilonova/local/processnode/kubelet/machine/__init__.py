"""This machine as a Node: its properties, registration, usage, GPUs and capabilities."""
