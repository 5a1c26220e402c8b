"""CertificateSigningRequests."""

from collections.abc import Mapping

from kilonova.api.json import JsonObject
from kilonova.api.times import human_duration
from kilonova.local.auth.user import User, user_info
from kilonova.local.errors import Problem
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, NONE, text
from kilonova.local.kinds.rules import immutable
from kilonova.local.kinds.strategy import Reads, Strategy, strategy
from kilonova.local.kinds.walk import at, objects, part, text_of

_REQUESTOR = ("username", "uid", "groups", "extra")


def _condition(obj: JsonObject) -> str:
    types = {condition.get("type") for condition in objects(obj, "status", "conditions")}
    words = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    if "Failed" in types:
        words.append("Failed")
    if at(obj, "status", "certificate"):
        words.append("Issued")
    return ",".join(words)


def _duration(obj: JsonObject) -> str:
    seconds = at(obj, "spec", "expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


@strategy("certificates.k8s.io", "CertificateSigningRequest")
class CertificateSigningRequests(Strategy):
    """Somebody asks for a certificate. Who, the server has written into the spec."""

    columns = (
        NAME,
        AGE,
        text("SignerName", "spec", "signerName", missing=NONE),
        text("Requestor", "spec", "username"),
        Column("RequestedDuration", "string", lambda obj, _: _duration(obj)),
        Column("Condition", "string", lambda obj, _: _condition(obj)),
    )
    selectable: Mapping[str, Reads] = {"spec.signerName": text_of("spec", "signerName")}

    def sign(self, obj: JsonObject, user: User) -> None:
        spec = {name: value for name, value in part(obj, "spec").items() if name not in _REQUESTOR}
        obj["spec"] = {**spec, **user_info(user)}

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return immutable(new, old, "spec")


@strategy("certificates.k8s.io", "CertificateSigningRequest", subresource="approval")
class Approvals(CertificateSigningRequests):
    """Only the conditions change: approved or denied."""

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        conditions = objects(new, "status", "conditions")
        new["spec"] = old["spec"]
        new["status"] = {
            **part(old, "status"),
            **({"conditions": conditions} if conditions else {}),
        }
