"""Who may change objects that the operator manages."""

from typing import Any

import pytest

from kilonova.kube.admission import AdmissionRequest, Allowed, Denied
from kilonova.kube.admission.review import GroupVersionResource, UserInfo
from kilonova.workloads.admission.authorizer import (
    EXEMPT_SYSTEM_USERS,
    authorize_change,
    find_protecting_set,
)

MANAGED = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "set"}
EXEMPT = frozenset(("operator", *EXEMPT_SYSTEM_USERS))


def build_labelled_object(labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": "x", "labels": labels}}


def build_request(
    operation: Any,
    user: str = "eve",
    *,
    resource: str = "podcliques",
    group: str = "grove.io",
    new: dict[str, str] | None = None,
    old: dict[str, str] | None = None,
) -> AdmissionRequest:
    return AdmissionRequest(
        "u",
        operation,
        resource=GroupVersionResource(group, "v1alpha1", resource),
        name="x",
        namespace="here",
        user_info=UserInfo(user),
        object=None if new is None else build_labelled_object(new),
        old_object=None if old is None else build_labelled_object(old),
    )


@pytest.mark.parametrize(
    "review",
    [
        build_request("CONNECT", resource="pods", group="", new=MANAGED),
        build_request("DELETE", resource="pods", group="", old=MANAGED),
        build_request("CREATE", "operator", new=MANAGED),
        build_request("UPDATE", "operator", new=MANAGED, old=MANAGED),
        build_request("DELETE", EXEMPT_SYSTEM_USERS[0], old=MANAGED),
        build_request("CREATE", new={}),
        build_request("UPDATE", new=MANAGED, old={}),
        build_request("CREATE", new={"app.kubernetes.io/managed-by": "grove-operator"}),
        build_request("CREATE", new={**MANAGED, "app.kubernetes.io/managed-by": "somebody"}),
    ],
)
def test_requests_that_are_always_allowed(review):
    assert find_protecting_set(review, EXEMPT) is None


@pytest.mark.parametrize(
    "review",
    [
        build_request("CREATE", new=MANAGED),
        build_request("UPDATE", new=MANAGED, old=MANAGED),
        build_request("UPDATE", new={}, old=MANAGED),
        build_request("DELETE", old=MANAGED),
        build_request("UPDATE", resource="pods", group="", new=MANAGED, old=MANAGED),
    ],
)
def test_other_requests_depend_on_the_set(review):
    key = ("here", "set")
    assert find_protecting_set(review, EXEMPT) == key
    assert isinstance(authorize_change(review, key, {}), Denied)
    assert isinstance(authorize_change(review, key, {"grove.io/other": "true"}), Denied)
    unprotected = "grove.io/disable-managed-resource-protection"
    assert isinstance(authorize_change(review, key, {unprotected: "yes"}), Denied)
    assert authorize_change(review, key, {unprotected: "true"}) == Allowed()
    assert authorize_change(review, key, None) == Allowed()


def test_a_rejection_names_the_alternative():
    answer = authorize_change(build_request("DELETE", old=MANAGED), ("here", "set"), {})
    assert isinstance(answer, Denied)
    assert answer.code == 403
    assert answer.message == (
        'podcliques.grove.io "x" is managed by the operator of PodCliqueSet "set": user "eve" is '
        "not allowed to DELETE it. Change the PodCliqueSet instead, or annotate it with "
        'grove.io/disable-managed-resource-protection="true"'
    )
