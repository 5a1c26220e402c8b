"""Encoding of objects that are partly typed."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from kilonova.kube import unstructured_resource
from kilonova.kube.client.codec import encode_object

PODS = unstructured_resource("", "v1", "pods", "Pod", True)
TYPE = {"apiVersion": "v1", "kind": "Pod"}


class Metadata(msgspec.Struct, rename="camel", omit_defaults=True):
    generate_name: str = ""
    labels: dict[str, str] = {}


class Body(msgspec.Struct):
    metadata: Metadata
    kind: str = ""


def test_structs_and_times_inside_a_dictionary_are_encoded() -> None:
    start = datetime(2026, 5, 1, tzinfo=UTC)
    obj: Any = {"metadata": Metadata("p-"), "status": {"startTime": start}, "spec": None}
    expected: Any = {"metadata": {"generateName": "p-"}}
    expected["status"] = {"startTime": "2026-05-01T00:00:00Z"}
    assert json.loads(encode_object(PODS, obj)) == TYPE | expected


def test_name_is_added_to_typed_metadata() -> None:
    named = TYPE | {"metadata": {"labels": {"a": "b"}, "name": "p"}}
    metadata = Metadata(labels={"a": "b"})
    objects: list[Any] = [
        Body(metadata),
        {"metadata": metadata},
        {"metadata": {"labels": {"a": "b"}}},
    ]
    for obj in objects:
        assert json.loads(encode_object(PODS, obj, "p")) == named


def test_object_of_the_caller_is_unchanged() -> None:
    obj = {"metadata": {"labels": {}}}
    encode_object(PODS, obj, "p")
    assert obj == {"metadata": {"labels": {}}}
