"""A write as an AdmissionRequest: what webhooks are sent and what expressions call `request`."""

from kilonova.api.json import JsonObject
from kilonova.local.admission.chain import Attributes
from kilonova.local.admission.versions import type_name
from kilonova.local.auth import user_info
from kilonova.local.kinds.base import Kind


def admission_request(attributes: Attributes, kind: Kind) -> JsonObject:
    """The request without the objects and without a uid, in the version of `kind`."""
    target = attributes.target
    request: JsonObject = {
        "kind": _kind(kind, target.subresource),
        "resource": _resource(kind),
        "subResource": target.subresource,
        "requestKind": _kind(target.kind, target.subresource),
        "requestResource": _resource(target.kind),
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


def _kind(kind: Kind, subresource: str) -> JsonObject:
    name = type_name(kind, subresource)
    return {"group": name.group, "version": name.version, "kind": name.kind}


def _resource(kind: Kind) -> JsonObject:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}
