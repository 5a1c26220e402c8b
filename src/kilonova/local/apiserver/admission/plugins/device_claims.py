"""Authorizes admin access to devices, and changes of a ResourceClaim's status.

Admin access to devices in use requires a label on the namespace. The status of a claim has several
writers: the scheduler writes its allocation and consumers, a driver the status of its own devices;
both are permissions of their own, on subresources that have no endpoint.
"""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, forbidden_value, invalid
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects, nested_value
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.auth import MASTERS, AuthorizationAttributes, Authorizer, User
from kilonova.local.apiserver.auth.authorizer import forbidden_error
from kilonova.local.apiserver.kinds.resource.claim_status_validation import device_id
from kilonova.local.apiserver.storage import RevisionStore

_GROUP = "resource.k8s.io"
_ADMIN_ACCESS_LABEL = "resource.kubernetes.io/admin-access"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
_SPEC_PATHS = {"resourceclaims": ("spec",), "resourceclaimtemplates": ("spec", "spec")}


class DeviceClaimAuthorization:
    """Checks claims and templates; all other writes cost a comparison."""

    def __init__(self, store: RevisionStore, authorizer: Authorizer) -> None:
        self._store = store
        self._namespaces = store.collection("namespaces")
        self._authorizer = authorizer

    async def validate(self, attributes: Attributes) -> None:
        target, obj = attributes.target, attributes.obj
        if target.kind.group != _GROUP or target.kind.plural not in _SPEC_PATHS or obj is None:
            return
        if attributes.operation == "CREATE":
            problems = self._validate_admin_namespace(
                _find_admin_request(obj, target.kind.plural), attributes
            )
        elif target.subresource == "status" and attributes.old is not None:
            problems = [
                *self._validate_admin_namespace(
                    _find_admin_result(obj, attributes.old), attributes
                ),
                *self._validate_status_update(attributes, obj, attributes.old),
            ]
        else:
            return
        if problems:
            raise invalid(
                _GROUP, target.kind.kind, nested_object(obj, "metadata").get("name", ""), problems
            )

    def _validate_admin_namespace(
        self, path: str | None, attributes: Attributes
    ) -> list[FieldError]:
        if path is None:
            return []
        namespace = self._store.newest_entry(self._namespaces, attributes.target.namespace)
        if namespace is not None and namespace.labels.get(_ADMIN_ACCESS_LABEL) == "true":
            return []
        detail = (
            f"admin access to devices requires the `{_ADMIN_ACCESS_LABEL}: true` label "
            "on the containing namespace"
        )
        return [forbidden_value(path, detail)]

    def _validate_status_update(
        self, attributes: Attributes, new: JsonObject, old: JsonObject
    ) -> Iterator[FieldError]:
        user, verb = attributes.user, attributes.verb
        if MASTERS in user.groups:
            return
        moved = any(
            _status_field(new, name) != _status_field(old, name) for name in _ALLOCATION_FIELDS
        )
        if moved and (
            denial := self._denial(
                user, [AuthorizationAttributes(verb, _GROUP, "v1", *_BINDING_SUBRESOURCE)]
            )
        ):
            detail = (
                "changing status.allocation or status.reservedFor requires "
                f'resource="resourceclaims/binding", verb="{verb}" permission: {denial}'
            )
            yield forbidden_value("status.allocation", detail)
        if nested_value(new, "status", "allocation") is None:
            return
        verbs = [f"arbitrary-node:{verb}"]
        if _is_on_node(user, _allocation_node(new)):
            verbs.insert(0, f"associated-node:{verb}")
        namespace = attributes.target.namespace
        for driver in sorted(_changed_drivers(new, old)):
            actions = [
                AuthorizationAttributes(each, _GROUP, "v1", *_DRIVER_SUBRESOURCE, namespace, driver)
                for each in verbs
            ]
            if denial := self._denial(user, actions):
                detail = (
                    'changing status.devices requires resource="resourceclaims/driver", '
                    f'verb="[{" ".join(verbs)}]" permission: {denial}'
                )
                yield forbidden_value("status.devices", detail)

    def _denial(self, user: User, actions: list[AuthorizationAttributes]) -> str:
        """Why none of these is allowed; empty if one is."""
        verdicts = [self._authorizer.authorize(user, action) for action in actions]
        if any(verdict.allowed for verdict in verdicts):
            return ""
        return forbidden_error(user, actions[0], verdicts[0].reason).message


_ALLOCATION_FIELDS = ("allocation", "reservedFor")
_BINDING_SUBRESOURCE = ("resourceclaims", "binding")
_DRIVER_SUBRESOURCE = ("resourceclaims", "driver")


def _status_field(claim: JsonObject, name: str) -> object:
    return nested_value(claim, "status", name) or None


def _find_admin_request(obj: JsonObject, plural: str) -> str | None:
    for index, request in enumerate(
        nested_objects(obj, *_SPEC_PATHS[plural], "devices", "requests")
    ):
        if nested_value(request, "exactly", "adminAccess"):
            return f"spec.devices.requests[{index}].adminAccess"
    return None


def _find_admin_result(new: JsonObject, old: JsonObject) -> str | None:
    """The path of a new allocation with admin access; existing ones stay."""
    path = ("status", "allocation", "devices", "results")
    if any(result.get("adminAccess") for result in nested_objects(old, *path)):
        return None
    for index, result in enumerate(nested_objects(new, *path)):
        if result.get("adminAccess"):
            return f"{'.'.join(path)}[{index}].adminAccess"
    return None


def _changed_drivers(new: JsonObject, old: JsonObject) -> set[str]:
    old_devices, new_devices = (
        {device_id(each): each for each in nested_objects(claim, "status", "devices")}
        for claim in (old, new)
    )
    return {
        key[0]
        for key in old_devices.keys() | new_devices.keys()
        if old_devices.get(key) != new_devices.get(key)
    }


def _allocation_node(claim: JsonObject) -> str:
    """The node that an allocation is restricted to, if it is a single one."""
    terms = nested_objects(claim, "status", "allocation", "nodeSelector", "nodeSelectorTerms")
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    match nested_objects(terms[0], "matchFields"):
        case [{"key": "metadata.name", "operator": "In", "values": [name]}]:
            return str(name)
        case _:
            return ""


def _is_on_node(user: User, node: str) -> bool:
    """Whether a ServiceAccount's token was issued to a pod on that node."""
    return (
        bool(node)
        and user.name.startswith(_SERVICE_ACCOUNT_PREFIX)
        and tuple(user.extra.get(_NODE_NAME, ())) == (node,)
    )
