"""CertificateSigningRequests."""

from collections.abc import Mapping

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, NONE, text
from kilonova.local.kinds.rules import immutable
from kilonova.local.kinds.strategy import Reads, Strategy, strategy
from kilonova.local.kinds.walk import at, objects, text_of
from kilonova.local.times import human_duration


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

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return immutable(new, old, "spec")
