"""What serving contributes to the console: inference services, live."""

from kilonova.serving.console.contribution import CONTRIBUTION

__all__ = ["CONTRIBUTION"]
