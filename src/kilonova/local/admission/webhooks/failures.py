"""What is said of a webhook that could not be asked, or that refused: Kubernetes' words."""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.errors import ApiError

_BY_STATUS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    410: "the server reported that the requested resource is no longer available",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: (
        "the server was unable to return a response in the time allotted, but may still be "
        "processing the request"
    ),
}


class _Status(msgspec.Struct):
    status: str = ""
    message: str = ""


class CallFailed(Exception):
    """A webhook that gave no usable answer; the message says why."""


def internal_error(text: str) -> ApiError:
    """500, with the text as its cause."""
    message = f"Internal error occurred: {text}"
    return ApiError(500, "InternalError", message, {"causes": [{"message": text}]})


def call_failed(webhook: str, failure: CallFailed) -> ApiError:
    """What the client hears when a webhook that must be asked fails."""
    return internal_error(f'failed calling webhook "{webhook}": {failure}')


def denied(webhook: str, result: JsonObject) -> ApiError:
    """What the client hears when a webhook refuses: in the webhook's own words."""
    by = f'admission webhook "{webhook}" denied the request'
    message, reason = result.get("message") or "", result.get("reason") or ""
    told = f"{by}: {message or reason}" if message or reason else f"{by} without explanation"
    code: int = result.get("code") or 0
    error = ApiError(max(code, 400), reason, told, result.get("details") or None)
    error.metadata = result.get("metadata") or {}
    return error


def no_dry_run(webhook: str) -> ApiError:
    """A webhook that may do more than answer is not asked about what will not happen."""
    message = f'admission webhook "{webhook}" does not support dry run'
    return ApiError(400, "BadRequest", message)


def answered_with(status: int, body: bytes, content_type: str) -> str:
    """A status that is no success, and what stood in the body."""
    try:
        told = msgspec.json.decode(body, type=_Status)
    except msgspec.MsgspecError:
        pass
    else:
        if told.status == "Failure":
            return told.message
    is_text = content_type.startswith("text/")
    text = body.decode(errors="replace").strip() if is_text else "unknown"
    if status in (403, 415):
        return text
    if status == 500:
        return f'an error on the server ("{text}") has prevented the request from succeeding'
    return _BY_STATUS.get(
        status,
        f"the server responded with the status code {status} but did not return more information",
    )
