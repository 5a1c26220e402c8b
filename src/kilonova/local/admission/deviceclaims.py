"""Who may have devices beside their users, and who may say which devices a claim has.

A device is given to administrators, beside whoever uses it, only in namespaces that are labelled
so. The status of a claim is divided: the scheduler writes its allocation and who it is for, a
driver what it says of its own devices; both are rights of their own, on subresources that have
no endpoint.
"""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.local.admission.chain import Attributes
from kilonova.local.auth import MASTERS, Action, Authorizer, User
from kilonova.local.auth.authorizer import refused
from kilonova.local.errors import Problem, forbidden_field, invalid
from kilonova.local.kinds.deviceallocations import device_id
from kilonova.local.kinds.walk import at, objects, part
from kilonova.local.storage import Store

_GROUP = "resource.k8s.io"
_LABEL = "resource.kubernetes.io/admin-access"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_ACCOUNT = "system:serviceaccount:"
_SPECS = {"resourceclaims": ("spec",), "resourceclaimtemplates": ("spec", "spec")}


class DeviceClaims:
    """Looks at claims and templates; all other writes cost a comparison."""

    def __init__(self, store: Store, authorizer: Authorizer) -> None:
        self._store = store
        self._namespaces = store.collection("namespaces")
        self._authorizer = authorizer

    async def validate(self, attributes: Attributes) -> None:
        target, obj = attributes.target, attributes.obj
        if target.kind.group != _GROUP or target.kind.plural not in _SPECS or obj is None:
            return
        if attributes.operation == "CREATE":
            problems = self._for_administrators(_admin_request(obj, target.kind.plural), attributes)
        elif target.subresource == "status" and attributes.old is not None:
            problems = [
                *self._for_administrators(_admin_result(obj, attributes.old), attributes),
                *self._unauthorized(attributes, obj, attributes.old),
            ]
        else:
            return
        if problems:
            raise invalid(_GROUP, target.kind.kind, part(obj, "metadata").get("name", ""), problems)

    def _for_administrators(self, path: str | None, attributes: Attributes) -> list[Problem]:
        if path is None:
            return []
        namespace = self._store.newest(self._namespaces, attributes.target.namespace)
        if namespace is not None and namespace.labels.get(_LABEL) == "true":
            return []
        detail = (
            f"admin access to devices requires the `{_LABEL}: true` label on the containing "
            "namespace"
        )
        return [forbidden_field(path, detail)]

    def _unauthorized(
        self, attributes: Attributes, new: JsonObject, old: JsonObject
    ) -> Iterator[Problem]:
        user, verb = attributes.user, attributes.verb
        if MASTERS in user.groups:
            return
        moved = any(_status(new, name) != _status(old, name) for name in _ALLOCATED)
        if moved and (trouble := self._refusal(user, [Action(verb, _GROUP, "v1", *_BIND)])):
            detail = (
                "changing status.allocation or status.reservedFor requires "
                f'resource="resourceclaims/binding", verb="{verb}" permission: {trouble}'
            )
            yield forbidden_field("status.allocation", detail)
        if at(new, "status", "allocation") is None:
            return
        verbs = [f"arbitrary-node:{verb}"]
        if _is_on(user, _node_of(new)):
            verbs.insert(0, f"associated-node:{verb}")
        namespace = attributes.target.namespace
        for driver in sorted(_drivers_changed(new, old)):
            asked = [Action(each, _GROUP, "v1", *_DRIVE, namespace, driver) for each in verbs]
            if trouble := self._refusal(user, asked):
                detail = (
                    'changing status.devices requires resource="resourceclaims/driver", '
                    f'verb="[{" ".join(verbs)}]" permission: {trouble}'
                )
                yield forbidden_field("status.devices", detail)

    def _refusal(self, user: User, actions: list[Action]) -> str:
        """Why none of these is allowed; empty where one is."""
        verdicts = [self._authorizer.decide(user, action) for action in actions]
        if any(verdict.allowed for verdict in verdicts):
            return ""
        return refused(user, actions[0], verdicts[0].reason).message


_ALLOCATED = ("allocation", "reservedFor")
_BIND = ("resourceclaims", "binding")
_DRIVE = ("resourceclaims", "driver")


def _status(claim: JsonObject, name: str) -> object:
    return at(claim, "status", name) or None


def _admin_request(obj: JsonObject, plural: str) -> str | None:
    for index, request in enumerate(objects(obj, *_SPECS[plural], "devices", "requests")):
        if at(request, "exactly", "adminAccess"):
            return f"spec.devices.requests[{index}].adminAccess"
    return None


def _admin_result(new: JsonObject, old: JsonObject) -> str | None:
    """Where a new allocation gives that access; what was given stays."""
    path = ("status", "allocation", "devices", "results")
    if any(result.get("adminAccess") for result in objects(old, *path)):
        return None
    for index, result in enumerate(objects(new, *path)):
        if result.get("adminAccess"):
            return f"{'.'.join(path)}[{index}].adminAccess"
    return None


def _drivers_changed(new: JsonObject, old: JsonObject) -> set[str]:
    before, after = (
        {device_id(each): each for each in objects(claim, "status", "devices")}
        for claim in (old, new)
    )
    return {key[0] for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def _node_of(claim: JsonObject) -> str:
    """The one node that an allocation is for, if it is for one."""
    terms = objects(claim, "status", "allocation", "nodeSelector", "nodeSelectorTerms")
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    match objects(terms[0], "matchFields"):
        case [{"key": "metadata.name", "operator": "In", "values": [name]}]:
            return str(name)
        case _:
            return ""


def _is_on(user: User, node: str) -> bool:
    """Whether a ServiceAccount's token was given to a pod on that node."""
    return (
        bool(node)
        and user.name.startswith(_ACCOUNT)
        and tuple(user.extra.get(_NODE_NAME, ())) == (node,)
    )
