"""CertificateSigningRequests."""

from collections.abc import Mapping

from kilonova.api.json import JsonObject
from kilonova.api.times import human_duration
from kilonova.local.apimachinery.errors import FieldError
from kilonova.local.apimachinery.unstructured import (
    nested_object,
    nested_objects,
    nested_value,
    string_reader,
)
from kilonova.local.apiserver.auth.user import User, user_info
from kilonova.local.apiserver.kinds.columns import AGE, NAME, NONE, text_column
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, FieldReader, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_immutable

_REQUESTOR = ("username", "uid", "groups", "extra")


def _condition(obj: JsonObject) -> str:
    types = {condition.get("type") for condition in nested_objects(obj, "status", "conditions")}
    states = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    if "Failed" in types:
        states.append("Failed")
    if nested_value(obj, "status", "certificate"):
        states.append("Issued")
    return ",".join(states)


def _duration(obj: JsonObject) -> str:
    seconds = nested_value(obj, "spec", "expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


@register_strategy("certificates.k8s.io", "CertificateSigningRequest")
class CertificateSigningRequestStrategy(BuiltinStrategy):
    """A request for a certificate. The server records the requesting user in the spec."""

    columns = (
        NAME,
        AGE,
        text_column("SignerName", "spec", "signerName", missing=NONE),
        text_column("Requestor", "spec", "username"),
        PrinterColumn("RequestedDuration", "string", lambda obj, _: _duration(obj)),
        PrinterColumn("Condition", "string", lambda obj, _: _condition(obj)),
    )
    selectable_fields: Mapping[str, FieldReader] = {
        "spec.signerName": string_reader("spec", "signerName")
    }

    def record_requester(self, obj: JsonObject, user: User) -> None:
        spec = {
            name: value
            for name, value in nested_object(obj, "spec").items()
            if name not in _REQUESTOR
        }
        obj["spec"] = {**spec, **user_info(user)}

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return validate_immutable(new, old, "spec")


@register_strategy("certificates.k8s.io", "CertificateSigningRequest", subresource="approval")
class CertificateSigningRequestApprovalStrategy(CertificateSigningRequestStrategy):
    """`/approval`: changes only the conditions."""

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        conditions = nested_objects(new, "status", "conditions")
        new["spec"] = old["spec"]
        new["status"] = {
            **nested_object(old, "status"),
            **({"conditions": conditions} if conditions else {}),
        }
