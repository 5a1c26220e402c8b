"""Namespaces."""

from collections.abc import Mapping

from kilonova.api.json import JsonObject
from kilonova.local.kinds.columns import AGE, NAME, text
from kilonova.local.kinds.strategy import Reads, Strategy, strategy
from kilonova.local.kinds.walk import at, inside, text_of
from kilonova.local.names import dns_label

_FINALIZER = "kubernetes"


@strategy("", "Namespace")
class Namespaces(Strategy):
    """A namespace leaves when its contents are gone and its spec holds no finalizer."""

    shown_when_deleted = True
    tells_grace = False
    columns = (NAME, text("Status", "status", "phase"), AGE)
    selectable: Mapping[str, Reads] = {
        "status.phase": text_of("status", "phase"),
        "name": lambda obj: obj["metadata"].get("name", ""),
    }

    def fill(self, obj: JsonObject) -> None:
        if name := obj["metadata"].get("name"):
            inside(obj["metadata"], "labels")["kubernetes.io/metadata.name"] = name
        inside(obj, "status").setdefault("phase", "Active")

    def prepare_create(self, obj: JsonObject) -> None:
        finalizers = inside(obj, "spec").setdefault("finalizers", [])
        if _FINALIZER not in finalizers:
            finalizers.append(_FINALIZER)
        obj["status"] = {"phase": "Active"}
        self.fill(obj)

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_update(new, old)
        inside(new, "spec")["finalizers"] = at(old, "spec", "finalizers") or []

    def prepare_delete(self, obj: JsonObject, now: str) -> None:
        inside(obj, "status")["phase"] = "Terminating"

    def may_go(self, obj: JsonObject) -> bool:
        return not at(obj, "spec", "finalizers")

    def valid_name(self, name: str) -> str | None:
        return dns_label(name)
