"""A write as an AdmissionRequest, for webhooks and for `request` in expressions."""

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.admission.version_conversion import request_kind
from kilonova.local.apiserver.auth import user_info
from kilonova.local.apiserver.kinds.kind import Kind


def admission_request(attributes: Attributes, kind: Kind) -> JsonObject:
    """The request without the objects and without a uid, in the version of `kind`."""
    target = attributes.target
    request: JsonObject = {
        "kind": _kind_reference(kind, target.subresource),
        "resource": _resource_reference(kind),
        "subResource": target.subresource,
        "requestKind": _kind_reference(target.kind, target.subresource),
        "requestResource": _resource_reference(target.kind),
        "requestSubResource": target.subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation,
    }
    request = {name: value for name, value in request.items() if value}
    request["userInfo"] = user_info(attributes.user)
    request["dryRun"] = attributes.dry_run
    request["options"] = attributes.options() or None
    return request


def _kind_reference(kind: Kind, subresource: str) -> JsonObject:
    name = request_kind(kind, subresource)
    return {"group": name.group, "version": name.version, "kind": name.kind}


def _resource_reference(kind: Kind) -> JsonObject:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}
