"""The kind Greeting."""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import Resource


class Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    resource_version: str = ""


class Spec(msgspec.Struct):
    whom: str = ""


class Status(msgspec.Struct):
    message: str = ""


class Greeting(msgspec.Struct):
    metadata: Metadata
    spec: Spec = msgspec.field(default_factory=Spec)
    status: Status = msgspec.field(default_factory=Status)


GREETINGS = Resource("toy.example.com", "v1", "greetings", "Greeting", True, Greeting)


def load_definitions() -> list[JsonObject]:
    """The CustomResourceDefinition."""
    text = {"type": "string"}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"whom": text}},
            "status": {"type": "object", "properties": {"message": text}},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "greetings.toy.example.com"},
            "spec": {
                "group": "toy.example.com",
                "scope": "Namespaced",
                "names": {"kind": "Greeting", "plural": "greetings"},
                "versions": [version],
            },
        }
    ]
