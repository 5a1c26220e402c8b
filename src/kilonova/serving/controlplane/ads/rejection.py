"""Why a gateway rejected a response. Pure."""

import re

_MARKER = re.compile(r"goo\.gle/debug\w*")
_LIMIT = 500


def summarize_rejection(message: str) -> str:
    """One line that names the reason, for logs and conditions.

    Envoy quotes the whole resource, which has tokens, and then has the reason after a colon at
    the beginning of a line. Of a large resource it quotes a part, and no reason.
    """
    _, colon, reason = message.rpartition("\n: ")
    if not colon:
        reason = message.partition("\n")[0]
    reason = _MARKER.sub("", reason).strip()
    if not reason:
        return "a value is not allowed; Envoy does not report which"
    return reason if len(reason) <= _LIMIT else f"{reason[:_LIMIT]}…"
