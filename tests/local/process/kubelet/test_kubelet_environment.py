"""Variables, commands, and what a pod learns of itself."""

from base64 import b64encode
from typing import Any

import pytest

from kilonova.local.nodes.process.kubelet.devices import Devices, NotEnough
from kilonova.local.nodes.process.kubelet.envfile import EnvFileError, value_in
from kilonova.local.nodes.process.kubelet.environment import (
    ConfigError,
    Given,
    command_line,
    environment,
)
from kilonova.local.nodes.process.kubelet.expansion import expand
from kilonova.local.nodes.process.kubelet.fields import Surroundings
from tests.local.process.kubelet.kubelet_pods import UID, pod

AROUND = Surroundings("127.64.1.2", "127.0.0.1", {"cpu": "4", "memory": "8Gi"})


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
    given = Given(
        objects or Objects(),
        AROUND,
        {"KUBERNETES_SERVICE_HOST": "10.96.0.1"},
        {"PATH": "/bin"},
        lambda volume, path: files[volume, path],
    )
    return environment(subject, subject.container("main"), given)


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
    assert expand(text, {"A": "1"}, {"A": "0", "B": "2"}) == expected


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
    assert command_line(subject.container("main"), {"A": "1"}) == ("echo", "1", "$(A)")


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
    with pytest.raises(ConfigError) as error:
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
    assert value_in(text, "B") == expected


@pytest.mark.parametrize("text", ["B", "B =''", "B=x", "B='x", "B='x'y", "='x'", "B="])
def test_bad_files_of_variables(text: str) -> None:
    with pytest.raises(EnvFileError):
        value_in(text, "B")


def test_gpus_are_never_given_twice() -> None:
    devices = Devices([0, 1, 2])
    assert devices.take("u", "a", 2) == (0, 1)
    assert devices.take("u", "a", 2) == (0, 1)
    assert devices.take("v", "a", 1) == (2,)
    with pytest.raises(NotEnough, match="requested: 1, used: 3, capacity: 3"):
        devices.take("w", "a", 1)
    devices.free("u")
    devices.keep("x", "a", [1])
    assert devices.take("w", "a", 1) == (0,)


def test_containers_without_gpus_see_none() -> None:
    assert Devices([]).variables([]) == {}
    assert Devices([0]).variables([])["CUDA_VISIBLE_DEVICES"] == ""
    assert Devices([0, 1]).variables([1, 0])["NVIDIA_VISIBLE_DEVICES"] == "1,0"
