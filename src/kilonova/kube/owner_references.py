"""Owner references."""

from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube.client.resource import Resource


def build_owner_reference(resource: Resource[Any], metadata: Metadata) -> JsonObject:
    """The controller owner reference to an object: what has it is deleted with the object."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_controlled_by(metadata: Metadata, owner: Metadata) -> bool:
    """Whether an object has the controller owner reference to another."""
    controller = metadata.controller
    return controller is not None and controller.uid == owner.uid
