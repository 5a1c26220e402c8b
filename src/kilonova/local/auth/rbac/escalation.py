"""Nobody gives out rights that they do not have, unless they may `escalate` or `bind`."""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.admission import Attributes
from kilonova.local.auth.authorizer import Action
from kilonova.local.auth.rbac.decisions import Rbac, trouble
from kilonova.local.auth.rbac.policy import GROUP, RoleRef
from kilonova.local.auth.rbac.rules import Rule, compact, missing
from kilonova.local.auth.user import MASTERS
from kilonova.local.auth.words import quoted, quoted_list
from kilonova.local.errors import forbidden, not_found
from kilonova.local.kinds.walk import at, objects, part

_EVERYTHING = (
    Rule(("*",), ("*",), ("*",)),
    Rule(("*",), non_resource_urls=("*",)),
)
_LIFE = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


class Escalation:
    """The last plug-in that may change a write: it sees roles and bindings as they will be."""

    def __init__(self, rbac: Rbac) -> None:
        self._rbac = rbac

    async def mutate(self, attributes: Attributes) -> None:
        kind, obj = attributes.target.kind, attributes.obj
        if kind.group != GROUP or obj is None or MASTERS in attributes.user.groups:
            return
        if attributes.old is not None and _differs_in_life_only(obj, attributes.old):
            return
        if kind.plural in ("rolebindings", "clusterrolebindings"):
            self._check_binding(attributes, obj)
        elif not self._may(attributes, "escalate", kind.plural, attributes.target.name):
            self._check_role(attributes, obj)

    def _check_role(self, attributes: Attributes, role: JsonObject) -> None:
        self._require(attributes, msgspec.convert(objects(role, "rules"), tuple[Rule, ...]))
        # What a role gathers can become anything.
        gathers = any(
            objects(each or {}, "aggregationRule", "clusterRoleSelectors")
            for each in (role, attributes.old)
        )
        if gathers and missing(self._held(attributes)[0], _EVERYTHING):
            detail = "must have cluster-admin privileges to use the aggregationRule"
            name = role["metadata"].get("name", "")
            raise forbidden(GROUP, attributes.target.kind.plural, name, detail)

    def _check_binding(self, attributes: Attributes, binding: JsonObject) -> None:
        reference = part(binding, "roleRef")
        role = RoleRef(reference.get("kind", ""), reference.get("name", ""))
        plural = f"{role.kind.lower()}s"
        if self._may(attributes, "bind", plural, role.name):
            return
        rules = self._rbac.policy.rules(role, attributes.target.namespace)
        if rules is None:
            raise not_found(GROUP, attributes.target.kind.plural, role.name)
        self._require(attributes, rules)

    def _may(self, attributes: Attributes, verb: str, plural: str, name: str) -> bool:
        namespace = attributes.target.namespace
        action = Action(verb, GROUP, "*", plural, namespace=namespace, name=name)
        return self._rbac.decide(attributes.user, action).allowed

    def _held(self, attributes: Attributes) -> tuple[list[Rule], str]:
        rules, broken = self._rbac.rules_for(attributes.user, attributes.target.namespace)
        return rules, trouble(broken, attributes.target.kind.plural)

    def _require(self, attributes: Attributes, rules: tuple[Rule, ...]) -> None:
        held, unresolved = self._held(attributes)
        lacking = missing(held, rules)
        if not lacking:
            return
        user, kind = attributes.user, attributes.target.kind
        listed = "\n".join(compact(lacking))
        detail = (
            f"user {quoted(user.name)} (groups={quoted_list(user.groups)}) is attempting to grant "
            f"RBAC permissions not currently held:\n{listed}"
        )
        if unresolved:
            detail += f"; resolution errors: [{unresolved}]"
        raise forbidden(GROUP, kind.plural, at(attributes.obj or {}, "metadata", "name"), detail)


def _differs_in_life_only(new: JsonObject, old: JsonObject) -> bool:
    """Whether just those fields changed that the garbage collector has to change."""

    def substance(obj: JsonObject) -> JsonObject:
        metadata = {key: value for key, value in obj["metadata"].items() if key not in _LIFE}
        return {**obj, "metadata": metadata}

    return substance(new) == substance(old)
