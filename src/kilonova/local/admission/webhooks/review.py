"""AdmissionReviews: what webhooks are sent, and what their answers mean."""

import binascii
from base64 import b64decode
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.admission.webhooks.caller import Heard
from kilonova.local.admission.webhooks.failures import CallFailed
from kilonova.local.errors import ApiError
from kilonova.local.negotiation import decode_json
from kilonova.local.patch.values import go_kind

_VERSION, _KIND = "admission.k8s.io/v1", "AdmissionReview"
_HEADER = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'  # noqa: E501
_NO_KIND = "couldn't get version/kind; json parse error"
_SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'
_OTHERS = {("v1", "Status"): "v1.Status", ("admission.k8s.io/v1beta1", _KIND): f"v1beta1.{_KIND}"}
"""Kinds that are known where AdmissionReviews are, and are none."""


@dataclass(frozen=True, slots=True)
class Response:
    """A webhook's answer. `patch` is None where there is nothing to change."""

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


def encoded_review(
    uid: str, request: JsonObject, obj: JsonObject | None, old: JsonObject | None
) -> bytes:
    """The review to send."""
    asked = {"uid": uid, **request, "object": obj, "oldObject": old}
    return msgspec.json.encode({"kind": _KIND, "apiVersion": _VERSION, "request": asked})


def read_response(heard: Heard, uid: str, *, mutating: bool) -> Response:
    """The answer of a webhook. Raises `CallFailed` where it makes no sense."""
    review = _review(heard)
    response: JsonObject | None = review.get("response")
    if response is None:
        raise _invalid("webhook response was absent")
    if (answered := response.get("uid") or "") != uid:
        raise _invalid(f'expected response.uid="{uid}", got "{answered}"')
    if not review.get("apiVersion") or not review.get("kind"):
        group, _, version = (review.get("apiVersion") or "").rpartition("/")
        got = f"{group}/{version}, Kind={review.get('kind') or ''}"
        raise _invalid(f"expected webhook response of {_VERSION}, Kind={_KIND}, got {got}")
    patch = _patch(response, mutating)
    return Response(
        response.get("allowed") is True,
        response.get("status") or {},
        [str(each) for each in response.get("warnings") or ()],
        patch,
    )


def _review(heard: Heard) -> JsonObject:
    """The body as an AdmissionReview whose fields are of the right types."""
    if not heard.body:
        raise CallFailed(
            f"failed to call webhook: 0-length response with status code: {heard.status} "
            f"and content type: {heard.content_type}"
        )
    try:
        review: Any = decode_json(heard.body)
    except ApiError as error:
        if heard.body.lstrip()[:1] in (b"{", b"["):
            raise _unread(f"{_NO_KIND}: {error.message}") from None
        review = ""  # to Kubernetes, which would read YAML as well, any text is a string
    if not isinstance(review, dict):
        words = f"json: cannot unmarshal {go_kind(review)} into Go value of type {_HEADER}"
        raise _unread(f"{_NO_KIND}: {words}")
    review = cast(JsonObject, review)
    version, kind = review.get("apiVersion") or "", review.get("kind") or ""
    if (version or kind) and (version, kind) != (_VERSION, _KIND):
        other = _OTHERS.get((version, kind))
        if other is not None:
            raise _unread(f"converting ({other}) to (v1.{_KIND}): unknown conversion")
        raise _unread(f'no kind "{kind}" is registered for version "{version}" {_SCHEME}')
    response = review.get("response")
    if response is not None and not isinstance(response, dict):
        field = f"{_KIND}.response of type v1.AdmissionResponse"
        raise _unread(f"json: cannot unmarshal {go_kind(response)} into Go struct field {field}")
    for name, types, go_type in _FIELDS:
        value = cast(JsonObject, response or {}).get(name)
        if value is not None and not isinstance(value, types):
            field = f"AdmissionResponse.response.{name} of type {go_type}"
            raise _unread(f"json: cannot unmarshal {go_kind(value)} into Go struct field {field}")
    return review


def _patch(response: JsonObject, mutating: bool) -> list[Any] | None:
    encoded, kind = response.get("patch") or "", response.get("patchType")
    if not mutating:
        for name, given in (("patch", bool(encoded)), ("patchType", kind is not None)):
            if given:
                raise _invalid(f"validating webhook may not return response.{name}")
        return None
    if encoded and kind is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    if not encoded and kind is not None:
        raise _invalid("webhook returned response.patchType but not response.patch")
    if kind is None:
        return None
    if not kind:
        raise _invalid('webhook returned invalid response.patchType of ""')
    try:
        text = b64decode(encoded, validate=True)
    except binascii.Error:
        raise _unread(f"illegal base64 data at input byte {_first_illegal(encoded)}") from None
    operations = _operations(text)
    if operations and kind != "JSONPatch":
        raise CallFailed(f'unsupported patch type "{kind}"')
    return operations or None


def _operations(text: bytes) -> list[Any]:
    said = "received undecodable patch in webhook response"
    try:
        patch: Any = decode_json(text)
    except ApiError as error:
        raise CallFailed(f"{said}: {error.message}") from None
    if patch is None:
        return []
    if not isinstance(patch, list):
        words = f"json: cannot unmarshal {go_kind(patch)} into Go value of type jsonpatch.Patch"
        raise CallFailed(f"{said}: {words}")
    return cast(list[Any], patch)


def _first_illegal(encoded: str) -> int:
    legal = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
    return next((place for place, letter in enumerate(encoded) if letter not in legal), 0)


def _invalid(words: str) -> CallFailed:
    return CallFailed(f"received invalid webhook response: {words}")


def _unread(words: str) -> CallFailed:
    return CallFailed(f"failed to call webhook: {words}")
