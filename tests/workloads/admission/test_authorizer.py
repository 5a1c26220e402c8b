"""Who may change what the operator has made."""

from typing import Any

import pytest

from kilonova.kube.admission import Allowed, Denied, Review
from kilonova.kube.admission.review import ResourceName, User
from kilonova.workloads.admission.authorizer import SYSTEM_USERS, set_in_question, verdict

OURS = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "set"}
TRUSTED = frozenset(("operator", *SYSTEM_USERS))


def labelled(labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": "x", "labels": labels}}


def review(
    operation: Any,
    user: str = "eve",
    *,
    resource: str = "podcliques",
    group: str = "grove.io",
    new: dict[str, str] | None = None,
    old: dict[str, str] | None = None,
) -> Review:
    return Review(
        "u",
        operation,
        resource=ResourceName(group, "v1alpha1", resource),
        name="x",
        namespace="here",
        user_info=User(user),
        object=None if new is None else labelled(new),
        old_object=None if old is None else labelled(old),
    )


@pytest.mark.parametrize(
    "asked",
    [
        review("CONNECT", resource="pods", group="", new=OURS),
        review("DELETE", resource="pods", group="", old=OURS),
        review("CREATE", "operator", new=OURS),
        review("UPDATE", "operator", new=OURS, old=OURS),
        review("DELETE", SYSTEM_USERS[0], old=OURS),
        review("CREATE", new={}),
        review("UPDATE", new=OURS, old={}),
        review("CREATE", new={"app.kubernetes.io/managed-by": "grove-operator"}),
        review("CREATE", new={**OURS, "app.kubernetes.io/managed-by": "somebody"}),
    ],
)
def test_what_anybody_may_do_at_once(asked):
    assert set_in_question(asked, TRUSTED) is None


@pytest.mark.parametrize(
    "asked",
    [
        review("CREATE", new=OURS),
        review("UPDATE", new=OURS, old=OURS),
        review("UPDATE", new={}, old=OURS),
        review("DELETE", old=OURS),
        review("UPDATE", resource="pods", group="", new=OURS, old=OURS),
    ],
)
def test_for_all_else_the_set_is_asked(asked):
    key = ("here", "set")
    assert set_in_question(asked, TRUSTED) == key
    assert isinstance(verdict(asked, key, {}), Denied)
    assert isinstance(verdict(asked, key, {"grove.io/other": "true"}), Denied)
    unprotected = "grove.io/disable-managed-resource-protection"
    assert isinstance(verdict(asked, key, {unprotected: "yes"}), Denied)
    assert verdict(asked, key, {unprotected: "true"}) == Allowed()
    assert verdict(asked, key, None) == Allowed()


def test_a_refusal_says_what_to_do_instead():
    answer = verdict(review("DELETE", old=OURS), ("here", "set"), {})
    assert isinstance(answer, Denied)
    assert answer.code == 403
    assert answer.message == (
        'podcliques.grove.io "x" belongs to PodCliqueSet "set" and is kept by its operator: '
        'user "eve" may not DELETE it. Change the PodCliqueSet instead, or annotate that with '
        'grove.io/disable-managed-resource-protection="true"'
    )
