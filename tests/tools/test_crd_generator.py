"""Definitions that the generator makes: several versions and short names, `/scale` at any path."""

import time
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tools.crds.generate import build_definition
from tools.crds.model import CrdKind, CrdVersion, PrinterColumn, Scale

GROUP = "generator.example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Workers(msgspec.Struct, rename="camel"):
    """How many workers."""

    count: int = 0
    """The number of workers."""


class PoolSpec(msgspec.Struct, rename="camel"):
    """What is asked for."""

    workers: Workers | None = None
    """The workers."""
    region: str = ""
    """Where they are."""


class PoolStatus(msgspec.Struct, rename="camel"):
    """What there is."""

    ready: Workers | None = None
    """Workers that are ready."""
    selector: str = ""
    """The pods of the workers."""


class WorkerPool(msgspec.Struct, rename="camel"):
    """A pool of workers."""

    spec: PoolSpec | None = None
    """What is asked for."""
    status: PoolStatus | None = None
    """What there is."""


class OldPoolSpec(msgspec.Struct, rename="camel"):
    """What was asked for."""

    workers: Workers | None = None
    """The workers."""


OldPool = msgspec.defstruct("WorkerPool", [("spec", OldPoolSpec | None, None)])
WiderPool = msgspec.defstruct("WorkerPool", [("spec", PoolSpec | None, None), ("more", str, "")])
OtherKind = msgspec.defstruct("OtherPool", [("spec", PoolSpec | None, None)])

SCALE = Scale(".status.selector", ".spec.workers.count", ".status.ready.count")
STORED = CrdVersion(
    "v1", WorkerPool, (PrinterColumn("Region", "string", ".spec.region"),), scale=SCALE
)
OLD = CrdVersion("v1beta1", OldPool, storage=False, deprecation="use v1")
POOLS = CrdKind(GROUP, "workerpools", ("wp", "pools"), (STORED, OLD), namespaced=False)


def test_every_version_is_listed_with_its_own_columns_and_scale() -> None:
    spec = build_definition(POOLS)["spec"]
    new, old = spec["versions"]
    assert [(each["name"], each["served"], each["storage"]) for each in (new, old)] == [
        ("v1", True, True),
        ("v1beta1", True, False),
    ]
    assert new["subresources"]["scale"] == {
        "specReplicasPath": ".spec.workers.count",
        "statusReplicasPath": ".status.ready.count",
        "labelSelectorPath": ".status.selector",
    }
    assert "scale" not in old["subresources"]
    assert (old["deprecated"], old["deprecationWarning"]) == (True, "use v1")
    assert spec["conversion"] == {"strategy": "None"}
    assert spec["names"]["shortNames"] == ["wp", "pools"]
    assert spec["scope"] == "Cluster"


def test_scale_without_a_selector_has_no_selector_path() -> None:
    assert "labelSelectorPath" not in Scale().to_json()


def test_fields_are_described_by_their_docstrings() -> None:
    schema = build_definition(POOLS)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["properties"]["region"]["description"] == "Where they are."


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ((), "set storage of one version, not none"),
        ((STORED, replace(OLD, storage=True)), "set storage of one version, not v1, v1beta1"),
        ((STORED, replace(OLD, type=OtherKind)), "name the types alike, not OtherPool, WorkerPool"),
    ],
)
def test_contradictory_versions_are_rejected(
    versions: tuple[CrdVersion, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(POOLS, versions=versions)


def test_a_field_that_the_stored_version_would_lose_is_rejected() -> None:
    wider = replace(POOLS, versions=(STORED, replace(OLD, type=WiderPool)))
    with pytest.raises(ValueError, match=r"v1beta1 has \.more, which the stored version v1 lacks"):
        build_definition(wider)


def install_pools(api: Api) -> None:
    """Define the kind, and wait until it is served."""
    code, answer = api.access.request("POST", DEFINITIONS, build_definition(POOLS))
    assert code in (201, 409), answer
    deadline = time.monotonic() + 60
    while api.access.request("GET", f"/apis/{GROUP}/v1beta1/workerpools")[0] != 200:
        assert time.monotonic() < deadline, "the kind is not served"


def make_pool(api: Api, version: str, spec: Any) -> str:
    """Create a pool of this test through one version; its name."""
    name = f"of-{api.namespace}"
    body = {"apiVersion": f"{GROUP}/{version}", "kind": "WorkerPool", "metadata": {"name": name}}
    code, answer = api.access.request(
        "POST", f"/apis/{GROUP}/{version}/workerpools", {**body, "spec": spec}
    )
    assert code == 201, answer
    return name


def test_an_object_is_read_in_every_version(api: Api, kubectl: Kubectl) -> None:
    install_pools(api)
    name = make_pool(api, "v1", {"workers": {"count": 3}, "region": "north"})
    _, old = api.access.request("GET", f"/apis/{GROUP}/v1beta1/workerpools/{name}")
    assert (old["apiVersion"], old["spec"]) == (f"{GROUP}/v1beta1", {"workers": {"count": 3}})
    for short in ("wp", "pools"):
        header, row = kubectl(f"get {short} {name}").out.splitlines()
        assert (header.split(), row.split()) == (["NAME", "REGION"], [name, "north"])
    asked = kubectl(f"get workerpools.v1beta1.{GROUP} {name} -o name")
    assert "Warning: use v1" in asked.err


def test_scale_is_at_the_paths_of_the_kind(api: Api, kubectl: Kubectl) -> None:
    install_pools(api)
    name = make_pool(api, "v1", {"workers": {"count": 3}})
    path = f"/apis/{GROUP}/v1/workerpools/{name}"
    _, pool = api.access.request("GET", path)
    pool["status"] = {"ready": {"count": 2}, "selector": "app=x"}
    assert api.access.request("PUT", f"{path}/status", pool)[0] == 200
    _, scale = api.access.request("GET", f"{path}/scale")
    assert (scale["spec"], scale["status"]) == (
        {"replicas": 3},
        {"replicas": 2, "selector": "app=x"},
    )
    scaled = kubectl(f"scale wp {name} --replicas 7")
    assert scaled.code == 0, scaled.err
    _, live = api.access.request("GET", path)
    assert live["spec"] == {"workers": {"count": 7}}
    assert api.access.request("GET", f"/apis/{GROUP}/v1beta1/workerpools/{name}/scale")[0] == 404
