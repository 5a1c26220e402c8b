"""Which claims a pod gets, and when they are released: values in, values out."""

from typing import Any

import msgspec
import pytest

from kilonova.local.controllers.resourceclaim.generation import (
    build_claim,
    find_missing_claims,
    find_unreserved_claims,
    iter_claim_names,
)
from kilonova.local.controllers.resourceclaim.objects import (
    DELETE_PROTECTION_FINALIZER,
    Consumer,
    ResourceClaim,
    ResourceClaimTemplate,
)
from kilonova.local.controllers.resourceclaim.release import (
    ReleaseChanges,
    is_owner_finished,
    plan_release,
)
from kilonova.local.objects.core import Pod

BY_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
BY_NAME = {"name": "shared", "resourceClaimName": "ours"}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
ALLOCATED: Any = {"allocation": {"devices": {"results": []}}}


def pod(*claims: Any, uid: str = "u", node: str = "", name: str = "p", **status: Any) -> Pod:
    return msgspec.convert(
        {
            "metadata": {"name": name, "uid": uid, "resourceVersion": "1", "namespace": "n"},
            "spec": {"nodeName": node, "resourceClaims": list(claims)},
            "status": status,
        },
        Pod,
    )


def claim(name: str = "ours", status: Any = None, **metadata: Any) -> ResourceClaim:
    about = {"name": name, "uid": "c", "resourceVersion": "1", "namespace": "n", **metadata}
    return msgspec.convert({"metadata": about, "status": status or {}}, ResourceClaim)


def made(name: str | None) -> Any:
    return [{"name": "gpu", "resourceClaimName": name}]


MINE = claim("p-gpu-x", ownerReferences=[OWNER])
ANOTHERS = claim("p-gpu-x", ownerReferences=[{**OWNER, "uid": "other"}])


@pytest.mark.parametrize(
    ("status", "present", "missing"),
    [
        ([], None, True),
        (made("p-gpu-x"), MINE, False),
        (made("p-gpu-x"), None, True),
        (made("p-gpu-x"), ANOTHERS, True),
        (made(None), None, False),
    ],
)
def test_a_claim_is_generated_when_the_pod_has_none(
    status: Any, present: ResourceClaim | None, missing: bool
) -> None:
    wanting = pod(BY_TEMPLATE, BY_NAME, resourceClaimStatuses=status)
    found = find_missing_claims(wanting, lambda _: present)
    assert [each.name for each in found] == (["gpu"] if missing else [])


def test_generated_claim_has_its_owner_and_pod_claim_name() -> None:
    template = msgspec.convert(
        {
            "metadata": {"name": "one-gpu", "uid": "t", "resourceVersion": "1"},
            "spec": {
                "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                "spec": {"devices": {}},
            },
        },
        ResourceClaimTemplate,
    )
    wanting = pod(BY_TEMPLATE)
    assert build_claim(wanting, wanting.spec.resource_claims[0], template) == {
        "metadata": {
            "generateName": "p-gpu-",
            "labels": {"a": "b"},
            "annotations": {"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"},
            "ownerReferences": [OWNER],
        },
        "spec": {"devices": {}},
    }


def test_long_names_are_shortened_in_proportion() -> None:
    wanting = pod({**BY_TEMPLATE, "name": "c" * 40}, name="p" * 60)
    body = build_claim(
        wanting,
        wanting.spec.resource_claims[0],
        msgspec.convert(
            {"metadata": {"name": "t", "uid": "t", "resourceVersion": "1"}}, ResourceClaimTemplate
        ),
    )
    assert body["metadata"]["generateName"] == f"{'p' * 33}-{'c' * 22}"


def test_pod_uses_named_and_generated_claims() -> None:
    using = pod(
        BY_TEMPLATE,
        BY_NAME,
        resourceClaimStatuses=made("p-gpu-x"),
        extendedResourceClaimStatus={"resourceClaimName": "p-extended"},
    )
    assert list(iter_claim_names(using)) == ["p-gpu-x", "ours", "p-extended"]


@pytest.mark.parametrize(
    ("present", "node", "expected"),
    [
        (claim(status=ALLOCATED), "node", ["ours"]),
        (claim(status=ALLOCATED), "", []),
        (claim(), "node", []),
        (
            claim(
                status={
                    **ALLOCATED,
                    "reservedFor": [msgspec.to_builtins(Consumer("pods", "p", "u"))],
                }
            ),
            "node",
            [],
        ),
    ],
)
def test_claims_of_a_manually_bound_pod_are_reserved_for_it(
    present: ResourceClaim, node: str, expected: list[str]
) -> None:
    found = find_unreserved_claims(pod(BY_NAME, node=node), lambda _: present)
    assert [each.metadata.name for each in found] == expected


USERS = [Consumer("pods", "p", "u"), Consumer("pods", "q", "v")]
RESERVED = {**ALLOCATED, "reservedFor": msgspec.to_builtins(USERS)}
GOING = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("present", "remaining", "expected"),
    [
        (claim(status=RESERVED, finalizers=[DELETE_PROTECTION_FINALIZER]), USERS, ReleaseChanges()),
        (
            claim(status=RESERVED, finalizers=[DELETE_PROTECTION_FINALIZER]),
            USERS[1:],
            ReleaseChanges({"reservedFor": [{"resource": "pods", "name": "q", "uid": "v"}]}),
        ),
        (
            claim(status=RESERVED, finalizers=[DELETE_PROTECTION_FINALIZER]),
            [],
            ReleaseChanges({"reservedFor": None, "allocation": None}, True),
        ),
        (claim(status=RESERVED), [], ReleaseChanges({"reservedFor": None})),
        (claim(status=ALLOCATED, finalizers=[DELETE_PROTECTION_FINALIZER]), [], ReleaseChanges()),
        (
            claim(
                status=ALLOCATED, finalizers=[DELETE_PROTECTION_FINALIZER], deletionTimestamp=GOING
            ),
            [],
            ReleaseChanges({"allocation": None}, True),
        ),
        (
            claim(finalizers=[DELETE_PROTECTION_FINALIZER], deletionTimestamp=GOING),
            [],
            ReleaseChanges(None, True),
        ),
    ],
)
def test_claim_is_deallocated_after_its_last_consumer(
    present: ResourceClaim, remaining: list[Consumer], expected: ReleaseChanges
) -> None:
    assert plan_release(present, remaining) == expected


@pytest.mark.parametrize(
    ("owner", "done"),
    [
        (pod(), False),
        (pod(phase="Succeeded"), True),
        (pod(phase="Failed"), True),
        (pod(uid="another"), True),
        (None, False),
    ],
)
def test_generated_claim_is_deleted_when_its_pod_is_finished(owner: Pod | None, done: bool) -> None:
    assert is_owner_finished(MINE, owner) is done
    assert is_owner_finished(claim(), owner) is False
