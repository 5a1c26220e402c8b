"""Manifests, and what a real kube-apiserver stores for them.

`stored.json` is written by `python -m tests.local.apiserver.kinds.recorded_objects` from
`manifests.yaml`, and compared with the real server by `tests/kubernetes/test_builtin_kinds.py`.
"""

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kilonova.local.apiserver.kinds.builtin import builtin_kinds
from kilonova.local.apiserver.kinds.kind import Kind
from tests.harness.access import ServerAccess
from tests.harness.control_plane import ControlPlane

HERE = Path(__file__).parent
STORED = HERE / "stored.json"
_SERVER_OWNED = ("managedFields", "uid", "resourceVersion", "creationTimestamp")


@cache
def manifests() -> dict[str, Any]:
    """The manifests by kind and name."""
    documents: list[Any] = list(yaml.safe_load_all((HERE / "manifests.yaml").read_text()))
    return {f"{each['kind']} {each['metadata']['name']}": each for each in documents}


@cache
def stored() -> dict[str, Any]:
    """The recorded objects, by the same names."""
    return json.loads(STORED.read_text())


def served_kinds() -> dict[tuple[str, str], Kind]:
    """A new set of built-in kinds, by apiVersion and kind."""
    return {(kind.api_version, kind.kind): kind for kind in builtin_kinds()}


def storing(kinds: dict[tuple[str, str], Kind], kind: Kind) -> Kind:
    """The storage version of a kind."""
    group = kind.group if kind.storage_group is None else kind.storage_group
    return next(
        each
        for each in kinds.values()
        if (each.group, each.plural) == (group, kind.plural) and each.from_storage is None
    )


def normalize(obj: Any) -> Any:
    """The object without values that differ between servers and runs."""
    metadata = obj["metadata"]
    text = json.dumps(obj)
    for field, word in (("uid", "UID"), ("creationTimestamp", "NOW")):
        if field in metadata:
            text = text.replace(metadata[field], word)
    result = json.loads(text)
    for field in _SERVER_OWNED:
        result["metadata"].pop(field, None)
    spec = result.get("spec") or {}
    if spec.get("clusterIP", "None") != "None":
        spec["clusterIP"], spec["clusterIPs"] = "IP", ["IP"]
    if result["kind"] == "CertificateSigningRequest":
        for field in ("username", "uid", "groups", "extra"):
            spec.pop(field, None)
    if result["kind"] == "Pod":
        _remove_account(spec)
    return result


def _remove_account(spec: Any) -> None:
    """Remove what admission adds to a pod: its service account and token."""
    if spec.get("serviceAccountName") == "default":
        del spec["serviceAccountName"], spec["serviceAccount"]
    owners = [spec, *spec.get("initContainers", []), *spec["containers"]]
    for owner, field in ((each, "volumes" if each is spec else "volumeMounts") for each in owners):
        copy = [one for one in owner.get(field, []) if "kube-api-access-" not in one["name"]]
        if copy:
            owner[field] = copy
        else:
            owner.pop(field, None)


def create_on_server(access: ServerAccess, manifest: Any, kind: Kind) -> Any:
    """The object that the server would store for a manifest."""
    path = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if kind.namespaced:
        path += f"/namespaces/{manifest['metadata']['namespace']}"
    status, answer = access.request("POST", f"{path}/{kind.plural}?dryRun=All", manifest)
    assert status == 201, answer
    return normalize(answer)


def record() -> None:
    """Send every manifest to a real server, and record what it stores."""
    kinds = served_kinds()
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane.start(Path(folder)) as plane,
    ):
        answers = {
            name: create_on_server(plane.access, each, kinds[each["apiVersion"], each["kind"]])
            for name, each in manifests().items()
        }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in answers.items())
    STORED.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    record()
