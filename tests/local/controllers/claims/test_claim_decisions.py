"""Which claims a pod gets, and what becomes of them: values in, values out."""

from typing import Any

import msgspec
import pytest

from kilonova.local.controllers.claims.generation import (
    claim_names,
    generated_claim,
    missing_claims,
    unreserved,
)
from kilonova.local.controllers.claims.objects import PROTECTION, Claim, Consumer, Template
from kilonova.local.controllers.claims.release import Changes, changes, owner_is_done
from kilonova.local.controllers.objects import Pod

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


def claim(name: str = "ours", status: Any = None, **metadata: Any) -> Claim:
    about = {"name": name, "uid": "c", "resourceVersion": "1", "namespace": "n", **metadata}
    return msgspec.convert({"metadata": about, "status": status or {}}, Claim)


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
    status: Any, present: Claim | None, missing: bool
) -> None:
    wanting = pod(BY_TEMPLATE, BY_NAME, resourceClaimStatuses=status)
    found = missing_claims(wanting, lambda _: present)
    assert [each.name for each in found] == (["gpu"] if missing else [])


def test_a_generated_claim_carries_its_owner_and_its_name_in_the_pod() -> None:
    template = msgspec.convert(
        {
            "metadata": {"name": "one-gpu", "uid": "t", "resourceVersion": "1"},
            "spec": {
                "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                "spec": {"devices": {}},
            },
        },
        Template,
    )
    wanting = pod(BY_TEMPLATE)
    assert generated_claim(wanting, wanting.spec.resource_claims[0], template) == {
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
    body = generated_claim(
        wanting,
        wanting.spec.resource_claims[0],
        msgspec.convert({"metadata": {"name": "t", "uid": "t", "resourceVersion": "1"}}, Template),
    )
    assert body["metadata"]["generateName"] == f"{'p' * 33}-{'c' * 22}"


def test_a_pod_uses_the_claims_that_it_names_and_those_made_for_it() -> None:
    using = pod(
        BY_TEMPLATE,
        BY_NAME,
        resourceClaimStatuses=made("p-gpu-x"),
        extendedResourceClaimStatus={"resourceClaimName": "p-extended"},
    )
    assert list(claim_names(using)) == ["p-gpu-x", "ours", "p-extended"]


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
def test_claims_of_a_pod_placed_by_hand_are_reserved_for_it(
    present: Claim, node: str, expected: list[str]
) -> None:
    found = unreserved(pod(BY_NAME, node=node), lambda _: present)
    assert [each.metadata.name for each in found] == expected


USERS = [Consumer("pods", "p", "u"), Consumer("pods", "q", "v")]
RESERVED = {**ALLOCATED, "reservedFor": msgspec.to_builtins(USERS)}
GOING = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("present", "remaining", "expected"),
    [
        (claim(status=RESERVED, finalizers=[PROTECTION]), USERS, Changes()),
        (
            claim(status=RESERVED, finalizers=[PROTECTION]),
            USERS[1:],
            Changes({"reservedFor": [{"resource": "pods", "name": "q", "uid": "v"}]}),
        ),
        (
            claim(status=RESERVED, finalizers=[PROTECTION]),
            [],
            Changes({"reservedFor": None, "allocation": None}, True),
        ),
        (claim(status=RESERVED), [], Changes({"reservedFor": None})),
        (claim(status=ALLOCATED, finalizers=[PROTECTION]), [], Changes()),
        (
            claim(status=ALLOCATED, finalizers=[PROTECTION], deletionTimestamp=GOING),
            [],
            Changes({"allocation": None}, True),
        ),
        (claim(finalizers=[PROTECTION], deletionTimestamp=GOING), [], Changes(None, True)),
    ],
)
def test_devices_are_free_when_the_last_user_is_gone(
    present: Claim, remaining: list[Consumer], expected: Changes
) -> None:
    assert changes(present, remaining) == expected


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
def test_a_generated_claim_goes_when_its_pod_is_done(owner: Pod | None, done: bool) -> None:
    assert owner_is_done(MINE, owner) is done
    assert owner_is_done(claim(), owner) is False
