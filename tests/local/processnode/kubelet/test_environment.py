"""Variables, commands, and the downward API."""

from base64 import b64encode
from typing import Any

import pytest

from kilonova.local.processnode.kubelet.environment.downward_api import FieldContext
from kilonova.local.processnode.kubelet.environment.env_file import EnvFileError, read_value
from kilonova.local.processnode.kubelet.environment.expansion import expand_references
from kilonova.local.processnode.kubelet.environment.variables import (
    ContainerConfigError,
    EnvironmentInputs,
    build_environment,
    expand_command_line,
)
from tests.local.processnode.kubelet.kubelet_pods import UID, pod

FIELD_CONTEXT = FieldContext("127.64.1.2", "127.0.0.1", {"cpu": "4", "memory": "8Gi"})


class Objects:
    def __init__(self, **objects: dict[str, str]) -> None:
        self._objects = objects

    def config_map(self, name: str) -> Any:
        found = self._objects.get(name)
        return None if found is None else {"data": found}

    def secret(self, name: str) -> Any:
        found = self._objects.get(name)
        if found is None:
            return None
        return {"data": {key: b64encode(text.encode()).decode() for key, text in found.items()}}


def variables(container: Any, objects: Objects | None = None, **spec: Any) -> dict[str, str]:
    subject = pod({"name": "main", **container}, **spec)
    files = {("v", "f"): "K='from a file'\n"}
    given = EnvironmentInputs(
        objects or Objects(),
        FIELD_CONTEXT,
        {"KUBERNETES_SERVICE_HOST": "10.96.0.1"},
        {"PATH": "/bin"},
        lambda volume, path: files[volume, path],
    )
    return build_environment(subject, subject.container("main"), given)


def value(source: Any, objects: Objects | None = None, **spec: Any) -> str | None:
    return variables({"env": [{"name": "X", "valueFrom": source}]}, objects, **spec).get("X")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$(NONE)", "$(NONE)"),
        ("$(A", "$(A"),
        ("a$b$(A)$", "a$b1$"),
        ("$(A)$(B)", "12"),
        ("$$$(A)", "$1"),
    ],
)
def test_references(text: str, expected: str) -> None:
    assert expand_references(text, {"A": "1"}, {"A": "0", "B": "2"}) == expected


def test_variables_see_those_before_them() -> None:
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)$(C)"},
        {"name": "C", "value": "$(KUBERNETES_SERVICE_HOST)"},
    ]
    found = variables({"env": env})
    assert (found["B"], found["C"], found["PATH"]) == ("1$(C)", "10.96.0.1", "/bin")


def test_commands_are_expanded() -> None:
    subject = pod({"name": "main", "command": ["echo", "$(A)"], "args": ["$$(A)"]})
    words = subject.container("main").command + subject.container("main").args
    assert expand_command_line(words, {"A": "1"}) == ("echo", "1", "$(A)")


def test_single_variables_win_over_whole_objects() -> None:
    source = [{"configMapRef": {"name": "c"}, "prefix": "P_"}, {"secretRef": {"name": "s"}}]
    objects = Objects(c={"a": "1"}, s={"b": "2", "c": "3"})
    found = variables({"envFrom": source, "env": [{"name": "b", "value": "own"}]}, objects)
    assert (found["P_a"], found["b"], found["c"]) == ("1", "own", "3")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "default"),
        ("metadata.uid", UID),
        ("metadata.labels['a.b/c']", "x"),
        ("metadata.annotations['n']", 'q"'),
        ("metadata.labels", 'a.b/c="x"'),
        ("metadata.annotations", 'n="q\\""'),
        ("spec.nodeName", "node"),
        ("spec.serviceAccountName", "default"),
        ("status.podIP", "127.64.1.2"),
        ("status.podIPs", "127.64.1.2"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_fields_of_the_pod(path: str, expected: str) -> None:
    metadata = {"labels": {"a.b/c": "x"}, "annotations": {"n": 'q"'}}
    assert value({"fieldRef": {"fieldPath": path}}, nodeName="node", metadata=metadata) == expected


@pytest.mark.parametrize(
    ("resource", "divisor", "expected"),
    [
        ("limits.cpu", None, "2"),
        ("limits.cpu", "1m", "1500"),
        ("requests.cpu", None, "1"),
        ("limits.memory", "1Mi", "8192"),
        ("requests.memory", "1Mi", "64"),
        ("limits.ephemeral-storage", None, "0"),
    ],
)
def test_amounts(resource: str, divisor: str | None, expected: str) -> None:
    resources = {"limits": {"cpu": "1500m"}, "requests": {"cpu": "250m", "memory": "64Mi"}}
    ref = {"resource": resource} | ({"divisor": divisor} if divisor else {})
    env = [{"name": "X", "valueFrom": {"resourceFieldRef": ref}}]
    assert variables({"env": env, "resources": resources})["X"] == expected


def test_keys_of_objects() -> None:
    objects = Objects(c={"k": "v"}, s={"k": "w"})
    assert value({"configMapKeyRef": {"name": "c", "key": "k"}}, objects) == "v"
    assert value({"secretKeyRef": {"name": "s", "key": "k"}}, objects) == "w"
    assert value({"fileKeyRef": {"volumeName": "v", "path": "f", "key": "K"}}) == "from a file"
    assert value({"configMapKeyRef": {"name": "c", "key": "z", "optional": True}}, objects) is None
    assert value({"secretKeyRef": {"name": "z", "key": "k", "optional": True}}, objects) is None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "z", "key": "k"}}, 'configmap "z" not found'),
        ({"secretKeyRef": {"name": "z", "key": "k"}}, 'secret "z" not found'),
        (
            {"configMapKeyRef": {"name": "c", "key": "k"}},
            "couldn't find key k in ConfigMap default/c",
        ),
        ({"secretKeyRef": {"name": "c", "key": "k"}}, "couldn't find key k in Secret default/c"),
        ({"fieldRef": {"fieldPath": "spec.x"}}, "unsupported fieldPath: spec.x"),
        (
            {"resourceFieldRef": {"resource": "limits.x"}},
            "unsupported container resource : limits.x",
        ),
    ],
)
def test_what_is_missing_is_named(source: Any, message: str) -> None:
    with pytest.raises(ContainerConfigError) as error:
        value(source, Objects(c={}))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A='1'\nB='2'", "2"),
        ("# c\n\n  B='x y' # c", "x y"),
        ("B='one\ntwo'\n", "one\ntwo"),
        ("B= 'x'", ""),
        ("A='1'", ""),
    ],
)
def test_files_of_variables(text: str, expected: str) -> None:
    assert read_value(text, "B") == expected


@pytest.mark.parametrize("text", ["B", "B =''", "B=x", "B='x", "B='x'y", "='x'", "B="])
def test_bad_files_of_variables(text: str) -> None:
    with pytest.raises(EnvFileError):
        read_value(text, "B")
