"""CustomResourceDefinitions, as objects; what they define is in `customresources`."""

from __future__ import annotations

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem
from kilonova.local.kinds.columns import CREATED_AT, NAME
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import at, inside, objects, part


@strategy("apiextensions.k8s.io", "CustomResourceDefinition")
class CustomResourceDefinitions(Strategy):
    """Names are accepted and status is written by whoever admits the write.

    The package of custom resources is imported when a definition is first written: it needs
    kinds itself, and a server without definitions needs neither.
    """

    has_generation = True
    unconditional_update = False
    columns = (NAME, CREATED_AT)

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        names = inside(spec, "names")
        kind: str = names.get("kind", "")
        if not names.get("singular") and kind:
            names["singular"] = kind.lower()
        if not names.get("listKind") and kind:
            names["listKind"] = f"{kind}List"
        spec.setdefault("conversion", {"strategy": "None"})
        service: JsonObject | None = at(spec, "conversion", "webhook", "clientConfig", "service")
        if service:
            service.setdefault("port", 443)

    def prepare_create(self, obj: JsonObject) -> None:
        self._complete_status(obj)

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        self._complete_status(new)

    def validate(self, obj: JsonObject) -> list[Problem]:
        from kilonova.local.customresources.definition import (
            approval_problems,
            definition_problems,
            name_problems,
        )

        if obj["metadata"].get("resourceVersion"):
            return definition_problems(obj)
        return [*name_problems(obj), *definition_problems(obj), *approval_problems(obj)]

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        from kilonova.local.customresources.definition import change_problems

        return change_problems(new, old)

    def prepare_delete(self, obj: JsonObject, now: str) -> None:
        from kilonova.local.customresources.acceptance import mark_terminating

        mark_terminating(obj, now)

    def warnings(self, obj: JsonObject) -> list[str]:
        from kilonova.local.customresources.version import unrecognized_formats

        return [
            f'unrecognized format "{format}"'
            for version in objects(obj, "spec", "versions")
            for format in unrecognized_formats(part(version, "schema", "openAPIV3Schema"))
        ]

    def _complete_status(self, obj: JsonObject) -> None:
        """What Kubernetes shows of a definition whose names nobody has looked at yet."""
        from kilonova.local.customresources.acceptance import stored_versions

        status = dict(part(obj, "status"))
        status.setdefault("conditions", None)
        status.setdefault("acceptedNames", {"plural": "", "kind": ""})
        status["storedVersions"] = stored_versions(obj)
        obj["status"] = status
