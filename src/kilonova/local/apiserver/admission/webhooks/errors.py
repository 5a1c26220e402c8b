"""Kubernetes' errors for webhooks that fail or deny a request."""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import ApiError

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


class WebhookCallError(Exception):
    """A webhook returned no usable response; the message states why."""


def webhook_internal_error(text: str) -> ApiError:
    """500, with the text as its cause."""
    message = f"Internal error occurred: {text}"
    return ApiError(500, "InternalError", message, {"causes": [{"message": text}]})


def call_failed_error(webhook: str, failure: WebhookCallError) -> ApiError:
    """The error for a failed call of a webhook with failurePolicy Fail."""
    return webhook_internal_error(f'failed calling webhook "{webhook}": {failure}')


def denied_error(webhook: str, result: JsonObject) -> ApiError:
    """The error for a denied request, with the webhook's message."""
    by = f'admission webhook "{webhook}" denied the request'
    message, reason = result.get("message") or "", result.get("reason") or ""
    text = f"{by}: {message or reason}" if message or reason else f"{by} without explanation"
    code: int = result.get("code") or 0
    error = ApiError(max(code, 400), reason, text, result.get("details") or None)
    error.metadata = result.get("metadata") or {}
    return error


def dry_run_unsupported_error(webhook: str) -> ApiError:
    """A webhook with side effects is not called for a dry run."""
    message = f'admission webhook "{webhook}" does not support dry run'
    return ApiError(400, "BadRequest", message)


def error_status_message(status: int, body: bytes, content_type: str) -> str:
    """The message for an error status, with the body of the response."""
    try:
        decoded = msgspec.json.decode(body, type=_Status)
    except msgspec.MsgspecError:
        pass
    else:
        if decoded.status == "Failure":
            return decoded.message
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
