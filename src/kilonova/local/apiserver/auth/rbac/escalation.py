"""Users cannot grant permissions that they do not have, unless they may `escalate` or `bind`."""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import forbidden, not_found
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects, nested_value
from kilonova.local.apiserver.admission import Attributes
from kilonova.local.apiserver.auth.authorizer import AuthorizationAttributes
from kilonova.local.apiserver.auth.go_quoting import go_quote, go_quote_list
from kilonova.local.apiserver.auth.rbac.authorizer import RbacAuthorizer, missing_roles_message
from kilonova.local.apiserver.auth.rbac.policy import GROUP, RoleRef
from kilonova.local.apiserver.auth.rbac.rules import PolicyRule, format_rules, uncovered_rules
from kilonova.local.apiserver.auth.user import MASTERS

_ALL_RULES = (
    PolicyRule(("*",), ("*",), ("*",)),
    PolicyRule(("*",), non_resource_urls=("*",)),
)
_LIFECYCLE_FIELDS = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


class PrivilegeEscalationCheck:
    """The last mutating plugin: it sees roles and bindings as they will be stored."""

    def __init__(self, rbac: RbacAuthorizer) -> None:
        self._rbac = rbac

    async def mutate(self, attributes: Attributes) -> None:
        kind, obj = attributes.target.kind, attributes.obj
        if kind.group != GROUP or obj is None or MASTERS in attributes.user.groups:
            return
        if attributes.old is not None and _only_lifecycle_changed(obj, attributes.old):
            return
        if kind.plural in ("rolebindings", "clusterrolebindings"):
            self._check_binding(attributes, obj)
        elif not self._is_allowed(attributes, "escalate", kind.plural, attributes.target.name):
            self._check_role(attributes, obj)

    def _check_role(self, attributes: Attributes, role: JsonObject) -> None:
        self._require_rules(
            attributes, msgspec.convert(nested_objects(role, "rules"), tuple[PolicyRule, ...])
        )
        # An aggregated role can gain any permission.
        gathers = any(
            nested_objects(each or {}, "aggregationRule", "clusterRoleSelectors")
            for each in (role, attributes.old)
        )
        if gathers and uncovered_rules(self._held_rules(attributes)[0], _ALL_RULES):
            detail = "must have cluster-admin privileges to use the aggregationRule"
            name = role["metadata"].get("name", "")
            raise forbidden(GROUP, attributes.target.kind.plural, name, detail)

    def _check_binding(self, attributes: Attributes, binding: JsonObject) -> None:
        reference = nested_object(binding, "roleRef")
        role = RoleRef(reference.get("kind", ""), reference.get("name", ""))
        plural = f"{role.kind.lower()}s"
        if self._is_allowed(attributes, "bind", plural, role.name):
            return
        rules = self._rbac.policy.role_rules(role, attributes.target.namespace)
        if rules is None:
            raise not_found(GROUP, attributes.target.kind.plural, role.name)
        self._require_rules(attributes, rules)

    def _is_allowed(self, attributes: Attributes, verb: str, plural: str, name: str) -> bool:
        namespace = attributes.target.namespace
        action = AuthorizationAttributes(verb, GROUP, "*", plural, namespace=namespace, name=name)
        return self._rbac.authorize(attributes.user, action).allowed

    def _held_rules(self, attributes: Attributes) -> tuple[list[PolicyRule], str]:
        rules, broken = self._rbac.rules_for(attributes.user, attributes.target.namespace)
        return rules, missing_roles_message(broken, attributes.target.kind.plural)

    def _require_rules(self, attributes: Attributes, rules: tuple[PolicyRule, ...]) -> None:
        held, unresolved = self._held_rules(attributes)
        missing_rules = uncovered_rules(held, rules)
        if not missing_rules:
            return
        user, kind = attributes.user, attributes.target.kind
        listed = "\n".join(format_rules(missing_rules))
        detail = (
            f"user {go_quote(user.name)} (groups={go_quote_list(user.groups)}) "
            "is attempting to grant "
            f"RBAC permissions not currently held:\n{listed}"
        )
        if unresolved:
            detail += f"; resolution errors: [{unresolved}]"
        raise forbidden(
            GROUP, kind.plural, nested_value(attributes.obj or {}, "metadata", "name"), detail
        )


def _only_lifecycle_changed(new: JsonObject, old: JsonObject) -> bool:
    """Whether only fields changed that the garbage collector changes."""

    def without_lifecycle(obj: JsonObject) -> JsonObject:
        metadata = {
            key: value for key, value in obj["metadata"].items() if key not in _LIFECYCLE_FIELDS
        }
        return {**obj, "metadata": metadata}

    return without_lifecycle(new) == without_lifecycle(old)
