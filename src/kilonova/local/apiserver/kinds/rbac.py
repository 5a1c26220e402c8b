"""Roles, ClusterRoles and their bindings."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    invalid_value,
    not_supported_value,
    required_value,
)
from kilonova.local.apimachinery.names import dns_subdomain_error, path_segment_error
from kilonova.local.apimachinery.unstructured import (
    ensure_object,
    nested_object,
    nested_objects,
    nested_value,
)
from kilonova.local.apiserver.kinds.columns import AGE, NAME, wide_column
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy

_GROUP = "rbac.authorization.k8s.io"


@register_strategy(_GROUP, "Role")
class RoleStrategy(BuiltinStrategy):
    """Rules within a namespace."""

    allows_create_on_update = True
    is_namespaced = True

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        problems: list[FieldError] = []
        for index, rule in enumerate(nested_objects(obj, "rules")):
            path = f"rules[{index}]"
            if not rule.get("verbs"):
                problems.append(
                    required_value(f"{path}.verbs", "verbs must contain at least one value")
                )
            if rule.get("nonResourceURLs"):
                if self.is_namespaced:
                    detail = "namespaced rules cannot apply to non-resource URLs"
                    urls = rule["nonResourceURLs"]
                    problems.append(invalid_value(f"{path}.nonResourceURLs", urls, detail))
                continue
            if not rule.get("apiGroups"):
                detail = "resource rules must supply at least one api group"
                problems.append(required_value(f"{path}.apiGroups", detail))
            if not rule.get("resources"):
                detail = "resource rules must supply at least one resource"
                problems.append(required_value(f"{path}.resources", detail))
        return problems

    def name_error(self, name: str) -> str | None:
        return path_segment_error(name)


@register_strategy(_GROUP, "ClusterRole")
class ClusterRoleStrategy(RoleStrategy):
    """Rules for the whole cluster."""

    is_namespaced = False


def _subjects_column(kind: str) -> PrinterColumn:
    def names(obj: JsonObject) -> str:
        found = [each for each in nested_objects(obj, "subjects") if each.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{each.get('namespace')}/{each.get('name')}" for each in found)
        return ", ".join(each.get("name", "") for each in found)

    return wide_column(f"{kind}s", names)


@register_strategy(_GROUP, "RoleBinding")
class RoleBindingStrategy(BuiltinStrategy):
    """Grants a role to subjects. `roleRef` is immutable."""

    allows_create_on_update = True
    columns = (
        NAME,
        PrinterColumn(
            "Role",
            "string",
            lambda obj, _: (
                f"{nested_value(obj, 'roleRef', 'kind')}/{nested_value(obj, 'roleRef', 'name')}"
            ),
        ),
        AGE,
        _subjects_column("User"),
        _subjects_column("Group"),
        _subjects_column("ServiceAccount"),
    )
    is_namespaced = True
    allowed_role_kinds: tuple[str, ...] = ("Role", "ClusterRole")

    def set_defaults(self, obj: JsonObject) -> None:
        reference = ensure_object(obj, "roleRef")
        reference["apiGroup"] = reference.get("apiGroup") or _GROUP
        for subject in nested_objects(obj, "subjects"):
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = _GROUP

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        problems: list[FieldError] = []
        reference = nested_object(obj, "roleRef")
        if reference.get("apiGroup") != _GROUP:
            problems.append(
                not_supported_value("roleRef.apiGroup", reference["apiGroup"], [_GROUP])
            )
        if reference.get("kind") not in self.allowed_role_kinds:
            kinds = list(self.allowed_role_kinds)
            problems.append(not_supported_value("roleRef.kind", reference.get("kind", ""), kinds))
        if not reference.get("name"):
            problems.append(required_value("roleRef.name"))
        elif error := path_segment_error(reference["name"]):
            problems.append(invalid_value("roleRef.name", reference["name"], error))
        for index, subject in enumerate(nested_objects(obj, "subjects")):
            problems += self._validate_subject(subject, f"subjects[{index}]")
        return problems

    def _validate_subject(self, subject: JsonObject, path: str) -> list[FieldError]:
        name, kind = subject.get("name", ""), subject.get("kind", "")
        problems: list[FieldError] = []
        if not name:
            problems.append(required_value(f"{path}.name"))
        if kind == "ServiceAccount":
            if name and (error := dns_subdomain_error(name)):
                problems.append(invalid_value(f"{path}.name", name, error))
            if not subject.get("namespace") and not self.is_namespaced:
                problems.append(required_value(f"{path}.namespace"))
        elif kind not in ("User", "Group"):
            allowed = ["ServiceAccount", "User", "Group"]
            problems.append(not_supported_value(f"{path}.kind", kind, allowed))
        return problems

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        if new.get("roleRef") == old.get("roleRef"):
            return []
        go_value = {
            name: nested_value(new, "roleRef", field)
            for name, field in (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
        }
        return [invalid_value("roleRef", go_value, "cannot change roleRef")]

    def name_error(self, name: str) -> str | None:
        return path_segment_error(name)


@register_strategy(_GROUP, "ClusterRoleBinding")
class ClusterRoleBindingStrategy(RoleBindingStrategy):
    """Grants a ClusterRole in the whole cluster."""

    is_namespaced = False
    allowed_role_kinds = ("ClusterRole",)
