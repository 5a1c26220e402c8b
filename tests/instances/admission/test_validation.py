"""Defaults and validation of instances, deployments and releases, as tables."""

import copy
from typing import Any

import pytest

from kilonova.instances.admission.defaults import apply_defaults
from kilonova.instances.admission.engine import EngineRules
from kilonova.instances.admission.validation import (
    validate_deployment,
    validate_instance,
    validate_release,
)
from kilonova.kube.admission.field_errors import ValidationResult

RULES = EngineRules(
    list_strategies=lambda: ["packed", "tightest"],
    list_policies=lambda: ["ladder"],
)
SPEC: dict[str, Any] = {"model": "llama", "targetAgents": 8, "image": "engine:1"}


def with_changes(spec: Any, changes: dict[str, Any]) -> Any:
    """A copy with values at paths; None removes."""
    changed = copy.deepcopy(spec)
    for path, value in changes.items():
        *folders, last = path.split(".")
        part = changed
        for each in folders:
            part = part.setdefault(each, {})
        part[last] = value
        if value is None:
            del part[last]
    return changed


def instance(changes: dict[str, Any], name: str = "llama") -> Any:
    return {"metadata": {"name": name}, "spec": with_changes(SPEC, changes)}


def deployment(changes: dict[str, Any], name: str = "llama") -> Any:
    spec = {"replicas": 3, "release": "r1", "template": SPEC}
    return {"metadata": {"name": name}, "spec": with_changes(spec, changes)}


def errors_of(result: ValidationResult) -> list[str]:
    return [f"{each.field}: {each.message}" for each in result.errors]


VALID = {
    "the least": {},
    "a build instead of a number": {"targetAgents": None, "image": None, "build": "b1"},
    "another accelerator": {"accelerator": {"resource": "groq.com/lpu", "count": 8}},
    "an image of its own": {
        "image": None,
        "agent": {"spec": {"containers": [{"name": "a", "image": "x"}]}},
        "conductor": {"spec": {"containers": [{"name": "c", "image": "x"}]}},
    },
    "levels": {"topology": {"required": "topology.kubernetes.io/rack"}},
    "a tokenizer": {"tokenizer": "meta-llama/Llama-3.2"},
    "a normalised tokenizer": {"tokenizer": "meta-llama_llama-3.2"},
    "settings": {"config": {"MAX_BATCH": "8"}},
}


@pytest.mark.parametrize("changes", VALID.values(), ids=VALID)
def test_valid_spec_is_admitted(changes: dict[str, Any]) -> None:
    assert errors_of(validate_instance(instance(changes), None, RULES)) == []


INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "no number of agents": (
        {"targetAgents": None},
        "targetAgents: Required value: set it, or name a build that specifies the number of agents",
    ),
    "a resource of Kubernetes": (
        {"accelerator": {"resource": "requests.kubernetes.io/x"}},
        'accelerator.resource: Invalid value: "requests.kubernetes.io/x": must not be a resource '
        "of Kubernetes itself: write one like nvidia.com/gpu",
    ),
    "a resource without a domain": (
        {"accelerator": {"resource": "gpu"}},
        'accelerator.resource: Invalid value: "gpu": must be the name of an extended resource, '
        "such as nvidia.com/gpu",
    ),
    "no resource name": (
        {"accelerator": {"resource": "nvidia.com/my gpu"}},
        'accelerator.resource: Invalid value: "nvidia.com/my gpu": name part must be 1 to 63 '
        "letters, digits, '-', '_' or '.', and start and end with a letter or digit",
    ),
    "an unknown strategy": (
        {"allocation": {"strategy": "tigthest"}},
        'allocation.strategy: Not found: "tigthest": use one of packed, tightest, or install the '
        "package that offers it under kilonova.allocation",
    ),
    "an unknown policy": (
        {"repair": {"policy": "hope"}},
        'repair.policy: Not found: "hope": use one of ladder, or install the package that offers '
        "it under kilonova.repair",
    ),
    "no deadline": (
        {"repair": {"deadline": "0s"}},
        'repair.deadline: Invalid value: "0s": must be greater than 0',
    ),
    "no level": (
        {"topology": {"preferred": "a rack"}},
        'topology.preferred: Invalid value: "a rack": name part must be 1 to 63 letters, digits, '
        "'-', '_' or '.', and start and end with a letter or digit: a level is the key of a label "
        "of nodes",
    ),
    "no name of a tokenizer": (
        {"tokenizer": "Llama"},
        'tokenizer: Invalid value: "Llama": must be a name like org/model, or org_model in lower '
        "case",
    ),
    "a container without an image": (
        {
            "image": None,
            "agent": {"spec": {"containers": [{"name": "a", "image": "x"}]}},
            "conductor": {"spec": {"containers": [{"name": "c"}]}},
        },
        "conductor.spec.containers[0].image: Required value: set it, or the image of all "
        "containers that have none",
    ),
    "a variable's name": (
        {"config": {"A=B": "x"}},
        "config: Invalid value: \"A=B\": must be printable ASCII characters other than '=', at "
        "least one: it is a variable's name",
    ),
    "a label of ours": (
        {"agent": {"metadata": {"labels": {"supernova.groq.io/role": "agent"}}}},
        "agent.metadata.labels[supernova.groq.io/role]: Forbidden: is set by the controller: leave "
        "it out",
    ),
    "a release that is no label": (
        {"release": "r 1"},
        "release: Invalid value: \"r 1\": must be empty, or up to 63 letters, digits, '-', '_' or "
        "'.' that start and end with a letter or digit: instances have it as the label "
        "supernova.groq.io/release",
    ),
}


@pytest.mark.parametrize(("changes", "expected"), INVALID.values(), ids=INVALID)
def test_invalid_spec_is_rejected_wherever_it_is(changes: dict[str, Any], expected: str) -> None:
    spec = with_changes(SPEC, changes)
    assert errors_of(validate_instance(instance(changes), None, RULES)) == [f"spec.{expected}"]
    assert errors_of(
        validate_deployment(deployment({"template": spec, "release": ""}), None, RULES)
    ) == [f"spec.template.{expected}"]
    release = {"metadata": {"name": "r1"}, "spec": spec}
    assert f"spec.{expected}" in errors_of(validate_release(release, None, RULES))


def test_both_pods_need_an_image() -> None:
    found = errors_of(validate_instance(instance({"image": None}), None, RULES))
    assert found == [
        f"spec.{role}.spec.containers: Required value: write the container, or set image beside it"
        for role in ("agent", "conductor")
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a" * 48, None),
        ("a" * 49, "must be no more than 48 characters, as the names of its pods are longer"),
        ("a.b", "must consist of lower case letters, digits or '-'"),
    ],
)
def test_name_of_an_instance(name: str, expected: str | None) -> None:
    found = errors_of(validate_instance(instance({}, name), None, RULES))
    assert [each.startswith(f'metadata.name: Invalid value: "{name}": ') for each in found] == (
        [] if expected is None else [True]
    )
    assert expected is None or expected in found[0]


DEPLOYMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "neither template nor release": (
        {"template": None, "release": ""},
        "spec.template: Required value: set template, or name a release of this cluster",
    ),
    "two releases": (
        {"template.release": "r2"},
        'spec.template.release: Invalid value: "r2": must be that of spec.release, r1: leave it '
        "out",
    ),
    "no instance could be replaced": (
        {"strategy": {"maxUnavailable": 0}},
        "spec.strategy.maxUnavailable: Invalid value: 0: must not be 0 if maxSurge is 0: no "
        "instance could be replaced",
    ),
    "more than all": (
        {"strategy": {"maxUnavailable": "101%"}},
        'spec.strategy.maxUnavailable: Invalid value: "101%": must not be greater than 100%',
    ),
    "no amount": (
        {"strategy": {"maxSurge": "one"}},
        'spec.strategy.maxSurge: Invalid value: "one": must be a number or a percentage, such as 2 '
        "or 25%",
    ),
    "no deadline": (
        {"strategy": {"progressDeadline": "0s"}},
        'spec.strategy.progressDeadline: Invalid value: "0s": must be greater than 0',
    ),
}


@pytest.mark.parametrize(("changes", "expected"), DEPLOYMENTS.values(), ids=DEPLOYMENTS)
def test_invalid_deployment_is_rejected(changes: dict[str, Any], expected: str) -> None:
    assert errors_of(validate_deployment(deployment(changes), None, RULES)) == [expected]


def test_deployment_of_a_release_needs_no_template() -> None:
    assert errors_of(validate_deployment(deployment({"template": None}), None, RULES)) == []


def test_names_of_deployments_leave_a_suffix_for_instances() -> None:
    assert errors_of(validate_deployment(deployment({}, "a" * 42), None, RULES)) == []
    assert errors_of(validate_deployment(deployment({}, "a" * 43), None, RULES)) == [
        f'metadata.name: Invalid value: "{"a" * 43}": must be no more than 42 characters, as the '
        "names of its instances are longer"
    ]


def test_release_is_itself() -> None:
    release = {"metadata": {"name": "r1"}, "spec": {**SPEC, "release": "r2"}}
    assert errors_of(validate_release(release, None, RULES)) == [
        'spec.release: Invalid value: "r2": must be the name of the release itself, r1: leave it '
        "out"
    ]


def test_what_was_admitted_before_may_be_changed_in_other_parts_and_deleted() -> None:
    """A plug-in was uninstalled; a finalizer must still be removable."""
    old = instance({"allocation": {"strategy": "uninstalled"}})
    assert errors_of(validate_instance(old, old, RULES)) == []
    deleted = {**old, "metadata": {**old["metadata"], "deletionTimestamp": "2026-11-19T12:00:00Z"}}
    assert errors_of(validate_instance(deleted, instance({}), RULES)) == []
    assert len(errors_of(validate_instance(old, instance({}), RULES))) == 1


def test_warnings() -> None:
    changes = {
        "strategy": {"type": "Recreate", "maxSurge": 1},
        "template.accelerator": {"count": 0},
    }
    assert validate_deployment(deployment(changes), None, RULES).warnings == (
        "spec.strategy.maxSurge has no effect with type Recreate: all instances are deleted before "
        "others are created",
        "spec.template.accelerator.count is 0: agents get no accelerator, and may share nodes",
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, {"maxUnavailable": 1, "maxSurge": 0}),
        ({}, {"maxUnavailable": 1, "maxSurge": 0}),
        ({"maxSurge": "50%"}, {"maxUnavailable": 1, "maxSurge": "50%"}),
        ({"maxUnavailable": 0}, {"maxUnavailable": 0, "maxSurge": 0}),
        ({"type": "Recreate"}, {"type": "Recreate"}),
        ("text", "text"),
    ],
)
def test_default_strategy(given: Any, expected: Any) -> None:
    spec = {} if given is None else {"strategy": given}
    obj = {"spec": {"release": "r1", **spec}}
    assert apply_defaults(obj)["spec"]["strategy"] == expected
    assert obj["spec"].get("strategy") == given


def test_objects_of_any_shape_are_left_to_the_schema() -> None:
    for obj in ({}, {"spec": 1}, {"spec": []}):
        assert apply_defaults(obj) == obj
