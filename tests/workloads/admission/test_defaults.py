"""Default values of PodCliqueSets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.workloads.admission import ValidationContext, apply_defaults, validate_create
from kilonova.workloads.admission.defaults import warn_about_zero_replicas
from tests.workloads.admission.set_manifests import clique, group, pod_clique_set, set_field

CLIQUE = "spec.template.cliques[0].spec"


def spec_of(obj: dict[str, Any]) -> dict[str, Any]:
    return obj["spec"]["template"]["cliques"][0]["spec"]


def test_omitted_fields_are_defaulted():
    written = set_field(pod_clique_set(clique("a")), "metadata.namespace", None)
    filled = apply_defaults(set_field(written, f"{CLIQUE}.replicas", None))
    assert filled["metadata"]["namespace"] == "default"
    template = filled["spec"]["template"]
    assert template["terminationDelay"] == "4h"
    assert template["headlessServiceConfig"] == {"publishNotReadyAddresses": True}
    spec = template["cliques"][0]["spec"]
    assert (spec["replicas"], spec["minAvailable"]) == (1, 1)
    assert spec["podSpec"]["restartPolicy"] == "Always"
    assert spec["podSpec"]["terminationGracePeriodSeconds"] == 30


def test_given_fields_are_kept():
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
    assert apply_defaults(written) == written


def test_min_available_and_min_replicas_default_to_replicas():
    written = pod_clique_set(
        clique("a", 3, autoScalingConfig={"maxReplicas": 9}),
        groups=(
            group("g", replicas=4, scaleConfig={"maxReplicas": 5}),
            group("h", scaleConfig={"maxReplicas": 5}),
        ),
    )
    filled = apply_defaults(written)
    assert spec_of(filled)["minAvailable"] == 3
    assert spec_of(filled)["autoScalingConfig"]["minReplicas"] == 3
    scaled = filled["spec"]["template"]["podCliqueScalingGroups"]
    assert [each["scaleConfig"]["minReplicas"] for each in scaled] == [4, 1]


def test_zero_replicas_default_to_one_with_a_warning():
    written = pod_clique_set(clique("a", 0), clique("b"))
    assert spec_of(apply_defaults(written))["replicas"] == 1
    assert warn_about_zero_replicas(written) == (
        "spec.template.cliques[0].spec.replicas: 0 is defaulted to 1; to run no pods, scale the "
        "PodClique to 0",
    )


def test_role_defaults_to_the_clique_name_or_the_stored_role():
    written = pod_clique_set(clique("a", roleName=""), clique("b"))
    filled = apply_defaults(set_field(written, "spec.template.cliques[1].spec.roleName", None))
    roles = [each["spec"]["roleName"] for each in filled["spec"]["template"]["cliques"]]
    assert roles == ["a", "b"]
    assert spec_of(apply_defaults(written, pod_clique_set(clique("a"))))["roleName"] == "a-role"
    assert validate_create(filled, ValidationContext()).errors == ()


def test_omitted_min_available_keeps_the_stored_value():
    old = apply_defaults(pod_clique_set(clique("a", 2)))
    assert spec_of(apply_defaults(pod_clique_set(clique("a", 5)), old))["minAvailable"] == 2
    assert spec_of(apply_defaults(pod_clique_set(clique("b", 5)), old))["minAvailable"] == 5


def test_input_object_is_not_modified():
    written = pod_clique_set(clique("a"))
    apply_defaults(written)
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
def test_malformed_objects_are_left_to_schema_validation(obj):
    filled = apply_defaults(obj)
    assert apply_defaults(filled) == filled
    assert validate_create(filled, ValidationContext()).errors


names = st.text("abcdefgh", min_size=1, max_size=6)


@st.composite
def valid_sets(draw: st.DrawFn) -> dict[str, Any]:
    """Valid sets, minimal ones or with more fields."""
    cliques: list[dict[str, Any]] = []
    for name in draw(st.lists(names, min_size=1, max_size=5, unique=True)):
        created = clique(name)
        replicas = draw(st.none() | st.integers(1, 9))
        spec = created["spec"]
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
        cliques.append(created)
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
def test_defaulted_valid_set_is_valid_and_defaulting_is_idempotent(written):
    filled = apply_defaults(written)
    assert validate_create(filled, ValidationContext()).errors == ()
    assert apply_defaults(filled) == filled
    assert apply_defaults(filled, filled) == filled
