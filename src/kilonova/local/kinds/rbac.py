"""Roles and bindings."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value, not_supported, required
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, wide
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import at, inside, objects, part
from kilonova.local.names import dns_subdomain, path_segment

_GROUP = "rbac.authorization.k8s.io"


@strategy(_GROUP, "Role")
class Roles(Strategy):
    """What may be done in a namespace."""

    create_on_update = True
    in_namespace = True

    def problems(self, obj: JsonObject) -> list[Problem]:
        problems: list[Problem] = []
        for index, rule in enumerate(objects(obj, "rules")):
            path = f"rules[{index}]"
            if not rule.get("verbs"):
                problems.append(required(f"{path}.verbs", "verbs must contain at least one value"))
            if rule.get("nonResourceURLs"):
                if self.in_namespace:
                    detail = "namespaced rules cannot apply to non-resource URLs"
                    urls = rule["nonResourceURLs"]
                    problems.append(invalid_value(f"{path}.nonResourceURLs", urls, detail))
                continue
            if not rule.get("apiGroups"):
                detail = "resource rules must supply at least one api group"
                problems.append(required(f"{path}.apiGroups", detail))
            if not rule.get("resources"):
                detail = "resource rules must supply at least one resource"
                problems.append(required(f"{path}.resources", detail))
        return problems

    def valid_name(self, name: str) -> str | None:
        return path_segment(name)


@strategy(_GROUP, "ClusterRole")
class ClusterRoles(Roles):
    """What may be done anywhere."""

    in_namespace = False


def _subjects(kind: str) -> Column:
    def names(obj: JsonObject) -> str:
        found = [each for each in objects(obj, "subjects") if each.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{each.get('namespace')}/{each.get('name')}" for each in found)
        return ", ".join(each.get("name", "") for each in found)

    return wide(f"{kind}s", names)


@strategy(_GROUP, "RoleBinding")
class RoleBindings(Strategy):
    """Who may do what a role allows. The role cannot be exchanged."""

    create_on_update = True
    columns = (
        NAME,
        Column(
            "Role",
            "string",
            lambda obj, _: f"{at(obj, 'roleRef', 'kind')}/{at(obj, 'roleRef', 'name')}",
        ),
        AGE,
        _subjects("User"),
        _subjects("Group"),
        _subjects("ServiceAccount"),
    )
    in_namespace = True
    roles: tuple[str, ...] = ("Role", "ClusterRole")

    def fill(self, obj: JsonObject) -> None:
        reference = inside(obj, "roleRef")
        reference["apiGroup"] = reference.get("apiGroup") or _GROUP
        for subject in objects(obj, "subjects"):
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = _GROUP

    def problems(self, obj: JsonObject) -> list[Problem]:
        problems: list[Problem] = []
        reference = part(obj, "roleRef")
        if reference.get("apiGroup") != _GROUP:
            problems.append(not_supported("roleRef.apiGroup", reference["apiGroup"], [_GROUP]))
        if reference.get("kind") not in self.roles:
            kinds = list(self.roles)
            problems.append(not_supported("roleRef.kind", reference.get("kind", ""), kinds))
        if not reference.get("name"):
            problems.append(required("roleRef.name"))
        elif trouble := path_segment(reference["name"]):
            problems.append(invalid_value("roleRef.name", reference["name"], trouble))
        for index, subject in enumerate(objects(obj, "subjects")):
            problems += self._subject_problems(subject, f"subjects[{index}]")
        return problems

    def _subject_problems(self, subject: JsonObject, path: str) -> list[Problem]:
        name, kind = subject.get("name", ""), subject.get("kind", "")
        problems: list[Problem] = []
        if not name:
            problems.append(required(f"{path}.name"))
        if kind == "ServiceAccount":
            if name and (trouble := dns_subdomain(name)):
                problems.append(invalid_value(f"{path}.name", name, trouble))
            if not subject.get("namespace") and not self.in_namespace:
                problems.append(required(f"{path}.namespace"))
        elif kind not in ("User", "Group"):
            allowed = ["ServiceAccount", "User", "Group"]
            problems.append(not_supported(f"{path}.kind", kind, allowed))
        return problems

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        if new.get("roleRef") == old.get("roleRef"):
            return []
        shown = {
            name: at(new, "roleRef", field)
            for name, field in (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
        }
        return [invalid_value("roleRef", shown, "cannot change roleRef")]

    def valid_name(self, name: str) -> str | None:
        return path_segment(name)


@strategy(_GROUP, "ClusterRoleBinding")
class ClusterRoleBindings(RoleBindings):
    """The same for the whole cluster."""

    in_namespace = False
    roles = ("ClusterRole",)
