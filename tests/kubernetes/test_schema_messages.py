"""The tables of tests/local/schema match the messages of kube-apiserver."""

import re
import time
from typing import Any

import pytest

from tests.harness.control_plane import ControlPlane
from tests.local.apiserver.schema.cases import GROUP, KIND, VERSION, custom_object, definition, load

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STRICT = "?dryRun=All&fieldValidation=Strict"


def parse_errors(message: str) -> list[str]:
    """The errors in the message of a 422, sorted: Go's order is random."""
    listed = message.split(" is invalid: ", 1)[1]
    if listed.startswith("["):
        listed = listed[1:-1]
    return sorted(re.split(r", (?=(?:spec|status|metadata|<nil>)[-\w.\[\]]*: )", listed))


@pytest.fixture(scope="module")
def foos(control_plane: ControlPlane) -> str:
    """The path of objects of the custom kind, once it is served."""
    access = control_plane.access
    source = load("custom_cases.yaml")["schema"]
    status, answer = access.request("POST", DEFINITIONS, definition("foos", KIND, source))
    assert status == 201, answer
    path = f"/apis/{GROUP}/{VERSION}/namespaces/default/foos"
    deadline = time.monotonic() + 30
    while access.request("GET", path)[0] != 200:
        assert time.monotonic() < deadline, "the custom kind is not served"
    return path


def test_on_objects_of_a_custom_kind(control_plane: ControlPlane, foos: str) -> None:
    differing: list[Any] = []
    for case in load("custom_cases.yaml")["cases"]:
        status, answer = control_plane.access.request("POST", foos + STRICT, custom_object(case))
        if status == 201:
            found: dict[str, Any] = {"stored": answer.get("spec")}
        elif status == 422:
            found = {"problems": parse_errors(answer["message"])}
        else:
            found = {"rejected": answer["message"]}
        if found != {key: case.get(key) for key in found}:
            differing.append((case["name"], found))
    assert differing == []


def test_on_schemas_of_custom_kinds(control_plane: ControlPlane) -> None:
    differing: list[Any] = []
    for case in load("structural_cases.yaml"):
        body = definition("bars", "Bar", case["schema"])
        status, answer = control_plane.access.request("POST", f"{DEFINITIONS}?dryRun=All", body)
        found = parse_errors(answer["message"]) if status == 422 else []
        expected = [f"spec.validation.{each}" for each in case["problems"]]
        if found != expected:
            differing.append((case["schema"], found))
    assert differing == []


def test_on_objects_that_cannot_be_read(control_plane: ControlPlane) -> None:
    differing: list[Any] = []
    for case in load("builtin_cases.yaml"):
        status, answer = control_plane.access.request("POST", case["path"] + STRICT, case["object"])
        if (status, answer["message"]) != (400, case["rejected"]):
            differing.append((case["object"], status, answer["message"]))
    assert differing == []
