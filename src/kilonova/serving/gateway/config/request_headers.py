"""Headers by which the filters of the gateway pass facts about a request to one another, and to
servers.

A client cannot set them: they are removed before any filter runs.
"""

from kilonova.serving.gateway.config.envoy_types import build_extension
from kilonova.serving.gateway.control_plane_calls import SERVICE_HEADER, TOKEN_HEADER
from kilonova.serving.gateway.model import EnvoyResource

MODEL_HEADER = "x-kilonova-model"
"""The model that a request names, in its path or body."""
PROMPT_HEADER = "x-kilonova-prompt"
"""A hash of the beginning of the prompt."""
CLIENT_HEADER = "x-kilonova-client"
"""The client: the name of an API key, a claim of a token, or the subject of a certificate."""

OURS = (CLIENT_HEADER, MODEL_HEADER, PROMPT_HEADER, SERVICE_HEADER, TOKEN_HEADER)


def build_early_removal() -> EnvoyResource:
    """The extension of the connection manager that removes them from what clients send."""
    return build_extension(
        "envoy.http.early_header_mutation.header_mutation",
        "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
        mutations=[{"remove": each} for each in OURS],
    )
