"""What is meant where a set says nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.workloads.admission import Context, defaulted, validate_create
from kilonova.workloads.admission.defaults import taken_as_one
from tests.workloads.admission.written import clique, group, pod_clique_set, with_value

CLIQUE = "spec.template.cliques[0].spec"


def spec_of(obj: dict[str, Any]) -> dict[str, Any]:
    return obj["spec"]["template"]["cliques"][0]["spec"]


def test_all_that_is_left_out_is_filled_in():
    written = with_value(pod_clique_set(clique("a")), "metadata.namespace", None)
    filled = defaulted(with_value(written, f"{CLIQUE}.replicas", None))
    assert filled["metadata"]["namespace"] == "default"
    template = filled["spec"]["template"]
    assert template["terminationDelay"] == "4h"
    assert template["headlessServiceConfig"] == {"publishNotReadyAddresses": True}
    spec = template["cliques"][0]["spec"]
    assert (spec["replicas"], spec["minAvailable"]) == (1, 1)
    assert spec["podSpec"]["restartPolicy"] == "Always"
    assert spec["podSpec"]["terminationGracePeriodSeconds"] == 30


def test_what_is_said_stays():
    written = pod_clique_set(
        clique(
            "a",
            3,
            minAvailable=2,
            autoScalingConfig={"minReplicas": 2, "maxReplicas": 9},
            podSpec={
                "containers": [],
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
            },
        ),
        groups=(group("g", "a", replicas=4, scaleConfig={"minReplicas": 1, "maxReplicas": 5}),),
        terminationDelay="1m",
        headlessServiceConfig={"publishNotReadyAddresses": False},
    )
    assert defaulted(written) == written


def test_min_available_is_replicas_and_autoscalers_begin_at_replicas():
    written = pod_clique_set(
        clique("a", 3, autoScalingConfig={"maxReplicas": 9}),
        groups=(
            group("g", replicas=4, scaleConfig={"maxReplicas": 5}),
            group("h", scaleConfig={"maxReplicas": 5}),
        ),
    )
    filled = defaulted(written)
    assert spec_of(filled)["minAvailable"] == 3
    assert spec_of(filled)["autoScalingConfig"]["minReplicas"] == 3
    scaled = filled["spec"]["template"]["podCliqueScalingGroups"]
    assert [each["scaleConfig"]["minReplicas"] for each in scaled] == [4, 1]


def test_no_replicas_at_all_are_one_and_the_author_is_told():
    written = pod_clique_set(clique("a", 0), clique("b"))
    assert spec_of(defaulted(written))["replicas"] == 1
    assert taken_as_one(written) == (
        "spec.template.cliques[0].spec.replicas: 0 is taken as 1; scale the PodClique to have none",
    )


def test_the_role_is_the_name_of_the_clique_unless_the_set_had_another():
    written = pod_clique_set(clique("a", roleName=""), clique("b"))
    filled = defaulted(with_value(written, "spec.template.cliques[1].spec.roleName", None))
    roles = [each["spec"]["roleName"] for each in filled["spec"]["template"]["cliques"]]
    assert roles == ["a", "b"]
    assert spec_of(defaulted(written, pod_clique_set(clique("a"))))["roleName"] == "a-role"
    assert validate_create(filled, Context()).problems == ()


def test_min_available_that_is_left_out_later_stays_what_it_was():
    old = defaulted(pod_clique_set(clique("a", 2)))
    assert spec_of(defaulted(pod_clique_set(clique("a", 5)), old))["minAvailable"] == 2
    assert spec_of(defaulted(pod_clique_set(clique("b", 5)), old))["minAvailable"] == 5


def test_the_object_that_was_given_is_left_alone():
    written = pod_clique_set(clique("a"))
    defaulted(written)
    assert written == pod_clique_set(clique("a"))


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"metadata": 3, "spec": []},
        {"spec": {"template": "x"}},
        {"spec": {"template": {"cliques": {}, "podCliqueScalingGroups": 1}}},
        {"spec": {"template": {"cliques": [1, {}, {"spec": 2}]}}},
        {"spec": {"template": {"cliques": [{"spec": {"replicas": "3", "podSpec": []}}]}}},
        {"spec": {"template": {"podCliqueScalingGroups": [{"scaleConfig": 1}, 2]}}},
    ],
)
def test_what_is_no_set_is_left_to_its_schema(obj):
    filled = defaulted(obj)
    assert defaulted(filled) == filled
    assert validate_create(filled, Context()).problems


names = st.text("abcdefgh", min_size=1, max_size=6)


@st.composite
def valid_sets(draw: st.DrawFn) -> dict[str, Any]:
    """Sets that are right, with as little in them as can be, or more."""
    cliques: list[dict[str, Any]] = []
    for name in draw(st.lists(names, min_size=1, max_size=5, unique=True)):
        made = clique(name)
        replicas = draw(st.none() | st.integers(1, 9))
        spec = made["spec"]
        del spec["replicas"]
        if replicas is not None:
            spec["replicas"] = replicas
            if draw(st.booleans()):
                spec["minAvailable"] = draw(st.integers(1, replicas))
            if draw(st.booleans()):
                spec["autoScalingConfig"] = {"maxReplicas": replicas + draw(st.integers(0, 3))}
        if cliques and draw(st.booleans()):
            earlier = [each["name"] for each in cliques]
            spec["startsAfter"] = draw(st.lists(st.sampled_from(earlier), unique=True))
        cliques.append(made)
    members = [each for each in cliques if "autoScalingConfig" not in each["spec"]]
    groups: tuple[dict[str, Any], ...] = ()
    if members and draw(st.booleans()):
        replicas = draw(st.integers(1, 5))
        more: dict[str, Any] = {
            "replicas": replicas,
            "minAvailable": draw(st.integers(1, replicas)),
        }
        if draw(st.booleans()):
            more["scaleConfig"] = {"maxReplicas": replicas}
        groups = (group("all-of-it", *(each["name"] for each in members), **more),)
    template: dict[str, Any] = {}
    if draw(st.booleans()):
        order = draw(st.sampled_from(["AnyOrder", "InOrder", "Explicit"]))
        template["cliqueStartupType"] = f"CliqueStartupType{order}"
    return pod_clique_set(*cliques, groups=groups, name=draw(names), **template)


@given(valid_sets())
def test_a_valid_set_with_its_defaults_is_valid_and_stays_so(written):
    filled = defaulted(written)
    assert validate_create(filled, Context()).problems == ()
    assert defaulted(filled) == filled
    assert defaulted(filled, filled) == filled
