"""When a request that the API server did not serve is sent again."""

from collections.abc import Callable

from kilonova.kube.client.errors import ApiStatusError, TooManyRequests

MAX_ATTEMPTS = 6
_MAX_DELAY_SECONDS = 60.0


def retry_delay(error: ApiStatusError, attempt: int, jitter: Callable[[], float]) -> float | None:
    """The delay before the next attempt, or None to give up."""
    if attempt + 1 == MAX_ATTEMPTS:
        return None
    if isinstance(error, TooManyRequests):
        if error.blocked_by_disruption_budget:
            return None
    elif error.code != 503 or error.retry_after is None:
        return None
    # Jitter, so that clients that were throttled together do not return together.
    requested_delay = 1.0 if error.retry_after is None else error.retry_after
    delay = requested_delay + jitter() * max(requested_delay, 1.0) / 4
    return delay if delay <= _MAX_DELAY_SECONDS else None
