"""The size of requests. A body is counted while it streams; it is not collected for that."""

from collections.abc import Iterator

from kilonova.serving.gateway.config.envoy_types import build_extension
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.model import EnvoyResource


def build_body_limit(inputs: GatewayInputs) -> Iterator[EnvoyResource]:
    """The filter of `limits.maxBodyBytes`."""
    limit = inputs.spec.limits.max_body_bytes
    if limit is None:
        return
    yield build_extension(
        "body-size-limit",
        # The message is newer than the published Python package of Envoy's API.
        "xds.type.v3.TypedStruct",
        type_url=(
            "type.googleapis.com/envoy.extensions.filters.http.body_size_limit.v3.BodySizeLimit"
        ),
        value={"max_request_bytes": limit},
    )
