"""Inference engines in the console: instances with their agents and repairs, deployments."""

from kilonova.instances.console.contribution import CONTRIBUTION

__all__ = ["CONTRIBUTION"]
