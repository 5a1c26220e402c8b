"""Claims of devices, and the templates that claims are made from."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, forbidden_field
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME
from kilonova.local.kinds.deviceallocations import allocated_devices, device_id, status_problems
from kilonova.local.kinds.devicerequests import claim_problems, fill_requests, fill_tolerations
from kilonova.local.kinds.rules import immutable
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import at, inside, objects, part
from kilonova.local.names import annotation_problems, label_problems

_GROUP = "resource.k8s.io"
_OF_A_TEMPLATE = ("labels", "annotations")


def _state(obj: JsonObject) -> str:
    deleted = bool(obj["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if not at(obj, "status", "allocation"):
        states += [] if deleted else ["pending"]
    else:
        states.append("allocated")
        if at(obj, "status", "reservedFor"):
            states.append("reserved")
    return ",".join(states)


@strategy(_GROUP, "ResourceClaim")
class ResourceClaims(Strategy):
    """Devices that a pod waits for. What it asks for is fixed."""

    shown_when_deleted = True
    status_keeps_metadata = True
    columns = (NAME, Column("State", "string", lambda obj, _: _state(obj)), AGE)

    def fill(self, obj: JsonObject) -> None:
        fill_requests(inside(obj, "spec"))
        for result in objects(obj, "status", "allocation", "devices", "results"):
            fill_tolerations(result)

    def validate_create(self, obj: JsonObject) -> list[Problem]:
        return list(claim_problems(part(obj, "spec"), "spec"))

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return [*immutable(new, old, "spec"), *status_problems(new, old)]

    def prepare_status(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_status(new, old)
        _forget_devices(new, allocated_devices(old) - allocated_devices(new))


@strategy(_GROUP, "ResourceClaimTemplate")
class ResourceClaimTemplates(Strategy):
    """What a claim per pod is made from."""

    shown_when_deleted = True
    columns = (NAME, AGE)

    def fill(self, obj: JsonObject) -> None:
        fill_requests(inside(inside(obj, "spec"), "spec"))

    def problems(self, obj: JsonObject) -> list[Problem]:
        metadata, path = part(obj, "spec", "metadata"), "spec.metadata"
        return [
            *annotation_problems(metadata.get("annotations"), f"{path}.annotations"),
            *label_problems(metadata.get("labels"), f"{path}.labels"),
            *(
                forbidden_field(f"{path}.{name}", "cannot be set")
                for name, value in metadata.items()
                if value and name not in _OF_A_TEMPLATE
            ),
            *claim_problems(part(obj, "spec", "spec"), "spec.spec"),
        ]

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return immutable(new, old, "spec")


def _forget_devices(claim: JsonObject, gone: set[tuple[str, str, str, str]]) -> None:
    """What was said of devices goes with them."""
    status = inside(claim, "status")
    kept = [each for each in objects(status, "devices") if device_id(each) not in gone]
    status.pop("devices", None)
    if kept:
        status["devices"] = kept
