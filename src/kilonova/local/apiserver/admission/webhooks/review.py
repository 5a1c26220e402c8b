"""AdmissionReviews: encodes requests to webhooks, and decodes their responses."""

import binascii
from base64 import b64decode
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apimachinery.patch.values import go_json_kind
from kilonova.local.apiserver.admission.webhooks.client import WebhookResponse
from kilonova.local.apiserver.admission.webhooks.errors import WebhookCallError
from kilonova.local.apiserver.endpoints.negotiation import decode_json

_VERSION, _KIND = "admission.k8s.io/v1", "AdmissionReview"
_HEADER = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'  # noqa: E501
_NO_KIND = "couldn't get version/kind; json parse error"
_SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'
_OTHER_KINDS = {
    ("v1", "Status"): "v1.Status",
    ("admission.k8s.io/v1beta1", _KIND): f"v1beta1.{_KIND}",
}
"""Kinds registered beside AdmissionReview that are not an AdmissionReview."""


@dataclass(frozen=True, slots=True)
class ReviewResponse:
    """A webhook's response. `patch` is None if nothing changes."""

    allowed: bool
    result: JsonObject
    warnings: list[str]
    patch: list[Any] | None = None


_FIELDS: tuple[tuple[str, type | tuple[type, ...], str], ...] = (
    ("uid", str, "types.UID"),
    ("allowed", bool, "bool"),
    ("status", dict, "v1.Status"),
    ("patch", str, "[]uint8"),
    ("patchType", str, "v1.PatchType"),
    ("auditAnnotations", dict, "map[string]string"),
    ("warnings", list, "[]string"),
)


def encode_review(
    uid: str, request: JsonObject, obj: JsonObject | None, old: JsonObject | None
) -> bytes:
    """Encode the review to send."""
    admission_request = {"uid": uid, **request, "object": obj, "oldObject": old}
    return msgspec.json.encode(
        {"kind": _KIND, "apiVersion": _VERSION, "request": admission_request}
    )


def read_response(http_response: WebhookResponse, uid: str, *, mutating: bool) -> ReviewResponse:
    """Decode the response of a webhook. Raises `WebhookCallError` if it is invalid."""
    review = _decode_review(http_response)
    response: JsonObject | None = review.get("response")
    if response is None:
        raise _invalid_response("webhook response was absent")
    if (answered := response.get("uid") or "") != uid:
        raise _invalid_response(f'expected response.uid="{uid}", got "{answered}"')
    if not review.get("apiVersion") or not review.get("kind"):
        group, _, version = (review.get("apiVersion") or "").rpartition("/")
        got = f"{group}/{version}, Kind={review.get('kind') or ''}"
        raise _invalid_response(f"expected webhook response of {_VERSION}, Kind={_KIND}, got {got}")
    patch = _decode_patch(response, mutating)
    return ReviewResponse(
        response.get("allowed") is True,
        response.get("status") or {},
        [str(each) for each in response.get("warnings") or ()],
        patch,
    )


def _decode_review(http_response: WebhookResponse) -> JsonObject:
    """The body as an AdmissionReview whose fields have the right types."""
    if not http_response.body:
        raise WebhookCallError(
            f"failed to call webhook: 0-length response with status code: {http_response.status} "
            f"and content type: {http_response.content_type}"
        )
    try:
        review: Any = decode_json(http_response.body)
    except ApiError as error:
        if http_response.body.lstrip()[:1] in (b"{", b"["):
            raise _unreadable_response(f"{_NO_KIND}: {error.message}") from None
        review = ""  # Kubernetes also decodes YAML, in which any text is a string
    if not isinstance(review, dict):
        message = f"json: cannot unmarshal {go_json_kind(review)} into Go value of type {_HEADER}"
        raise _unreadable_response(f"{_NO_KIND}: {message}")
    review = cast(JsonObject, review)
    version, kind = review.get("apiVersion") or "", review.get("kind") or ""
    if (version or kind) and (version, kind) != (_VERSION, _KIND):
        other = _OTHER_KINDS.get((version, kind))
        if other is not None:
            raise _unreadable_response(f"converting ({other}) to (v1.{_KIND}): unknown conversion")
        raise _unreadable_response(
            f'no kind "{kind}" is registered for version "{version}" {_SCHEME}'
        )
    response = review.get("response")
    if response is not None and not isinstance(response, dict):
        field = f"{_KIND}.response of type v1.AdmissionResponse"
        raise _unreadable_response(
            f"json: cannot unmarshal {go_json_kind(response)} into Go struct field {field}"
        )
    for name, types, go_type in _FIELDS:
        value = cast(JsonObject, response or {}).get(name)
        if value is not None and not isinstance(value, types):
            field = f"AdmissionResponse.response.{name} of type {go_type}"
            raise _unreadable_response(
                f"json: cannot unmarshal {go_json_kind(value)} into Go struct field {field}"
            )
    return review


def _decode_patch(response: JsonObject, mutating: bool) -> list[Any] | None:
    encoded, kind = response.get("patch") or "", response.get("patchType")
    if not mutating:
        for name, present in (("patch", bool(encoded)), ("patchType", kind is not None)):
            if present:
                raise _invalid_response(f"validating webhook may not return response.{name}")
        return None
    if encoded and kind is None:
        raise _invalid_response("webhook returned response.patch but not response.patchType")
    if not encoded and kind is not None:
        raise _invalid_response("webhook returned response.patchType but not response.patch")
    if kind is None:
        return None
    if not kind:
        raise _invalid_response('webhook returned invalid response.patchType of ""')
    try:
        text = b64decode(encoded, validate=True)
    except binascii.Error:
        raise _unreadable_response(
            f"illegal base64 data at input byte {_first_illegal_character(encoded)}"
        ) from None
    operations = _decode_operations(text)
    if operations and kind != "JSONPatch":
        raise WebhookCallError(f'unsupported patch type "{kind}"')
    return operations or None


def _decode_operations(text: bytes) -> list[Any]:
    prefix = "received undecodable patch in webhook response"
    try:
        patch: Any = decode_json(text)
    except ApiError as error:
        raise WebhookCallError(f"{prefix}: {error.message}") from None
    if patch is None:
        return []
    if not isinstance(patch, list):
        message = (
            f"json: cannot unmarshal {go_json_kind(patch)} into Go value of type jsonpatch.Patch"
        )
        raise WebhookCallError(f"{prefix}: {message}")
    return cast(list[Any], patch)


def _first_illegal_character(encoded: str) -> int:
    legal = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
    return next((index for index, letter in enumerate(encoded) if letter not in legal), 0)


def _invalid_response(message: str) -> WebhookCallError:
    return WebhookCallError(f"received invalid webhook response: {message}")


def _unreadable_response(message: str) -> WebhookCallError:
    return WebhookCallError(f"failed to call webhook: {message}")
