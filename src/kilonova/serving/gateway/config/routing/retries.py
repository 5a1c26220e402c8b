"""Requests that are sent to another server because the first one was lost."""

from kilonova.api.serving import Retries
from kilonova.serving.gateway.config.envoy_types import build_typed
from kilonova.serving.gateway.model import EnvoyResource

_NOT_BEGUN = "connect-failure,refused-stream,reset-before-request"
_BEGUN = "reset,unavailable,retriable-status-codes"


def build_retry_policy(retries: Retries) -> EnvoyResource | None:
    """The policy of a route; None for never."""
    if not retries.attempts:
        return None
    policy: EnvoyResource = {
        "retry_on": f"{_NOT_BEGUN},{_BEGUN}" if retries.idempotent else _NOT_BEGUN,
        "num_retries": retries.attempts,
        "retry_host_predicate": [
            {
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": build_typed(
                    "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
                ),
            }
        ],
        "host_selection_retry_max_attempts": 5,
        "retry_back_off": {"base_interval": "0.005s", "max_interval": "0.1s"},
    }
    if retries.idempotent:
        policy["retriable_status_codes"] = [503]
    return policy
