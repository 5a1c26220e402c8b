"""The fleet in the console: clusters, global deployments with their waves, releases."""

from kilonova.fleet.console.contribution import CONTRIBUTION

__all__ = ["CONTRIBUTION"]
