"""Rules about topologies and the constraints that name them."""

from typing import Any

import pytest

from kilonova.workloads.admission import (
    ValidationContext,
    apply_defaults,
    validate_create,
    validate_topology,
    validate_update,
)
from kilonova.workloads.settings import OperatorSettings
from tests.workloads.admission.set_manifests import clique, group, pod_clique_set, set_field

SET = "spec.template.topologyConstraint"
GROUP = "spec.template.podCliqueScalingGroups[0].topologyConstraint"
CLIQUE = "spec.template.cliques[0].topologyConstraint"
CONTEXT = ValidationContext(topologies={"t": ("zone", "block", "rack", "host")})
PLAIN = pod_clique_set(clique("a"), clique("b"), groups=(group("g", "a"),))


def build_constraint(
    required: str | None = None, preferred: str | None = None, name: str = "t"
) -> Any:
    pack = {"required": required, "preferred": preferred}
    constraint: dict[str, Any] = {"pack": {k: v for k, v in pack.items() if v}}
    return constraint | ({"topologyName": name} if name else {})


def build_constrained_set(**constraints: Any) -> dict[str, Any]:
    written = PLAIN
    for path, constraint in constraints.items():
        written = set_field(
            written, {"set": SET, "group": GROUP, "clique": CLIQUE}[path], constraint
        )
    return written


def validate_set(obj: dict[str, Any], context: ValidationContext = CONTEXT) -> list[str]:
    problems = validate_create(apply_defaults(obj), context).errors
    return [f"{each.field}: {each.message}" for each in problems]


@pytest.mark.parametrize(
    "constraints",
    [
        {
            "set": build_constraint("zone"),
            "group": build_constraint("rack", name=""),
            "clique": build_constraint("rack", name=""),
        },
        {"set": build_constraint(preferred="rack"), "clique": build_constraint("host", name="")},
        {"group": build_constraint("block"), "clique": build_constraint("rack", "host", name="")},
        {"clique": build_constraint("rack")},
        {"set": build_constraint("rack") | {"spread": {"domain": "block"}}},
        {"set": {"topologyName": "t", "spread": {"domain": "host", "required": True}}},
    ],
)
def test_valid_constraints_are_accepted(constraints):
    assert validate_set(build_constrained_set(**constraints)) == []


@pytest.mark.parametrize(
    ("constraints", "problems"),
    [
        (
            {"set": build_constraint("rack", name="")},
            [f"{SET}.topologyName: Required value: must name a ClusterTopologyBinding"],
        ),
        (
            {
                "group": build_constraint("rack", name=""),
                "clique": build_constraint("rack", name=""),
            },
            [
                f"{path}.topologyName: Required value: must name a ClusterTopologyBinding"
                for path in (GROUP, CLIQUE)
            ],
        ),
        (
            {"set": build_constraint("rack"), "clique": build_constraint("host", name="u")},
            [
                f'{CLIQUE}.topologyName: Invalid value: "u": must be the same in the whole set; '
                'another constraint has "t"'
            ],
        ),
        (
            {"set": build_constraint("rack", name="u")},
            [f'{SET}.topologyName: Not found: "u": the ClusterTopologyBinding does not exist'],
        ),
        (
            {
                "set": build_constraint("region", "row") | {"spread": {"domain": "hall"}},
                "clique": build_constraint("numa", name=""),
            },
            [
                f'{path}: Invalid value: "{domain}": topology "t" has no such level; '
                "its levels are zone, block, rack, host"
                for path, domain in (
                    (f"{SET}.pack.required", "region"),
                    (f"{SET}.pack.preferred", "row"),
                    (f"{SET}.spread.domain", "hall"),
                    (f"{CLIQUE}.pack.required", "numa"),
                )
            ],
        ),
        (
            {"set": build_constraint("host"), "clique": build_constraint("rack", name="")},
            [
                f'{SET}.pack.required: Invalid value: "host": the set must not be narrower than '
                'clique "a", which has "rack"'
            ],
        ),
        (
            {
                "set": build_constraint(preferred="rack"),
                "group": build_constraint(preferred="zone", name=""),
            },
            [
                f'{SET}.pack.preferred: Invalid value: "rack": the set must not be narrower than '
                'scaling group "g", which has "zone"'
            ],
        ),
        (
            {"group": build_constraint("host"), "clique": build_constraint("zone", name="")},
            [
                f'{GROUP}.pack.required: Invalid value: "host": scaling group "g" must not be '
                'narrower than clique "a", which has "zone"'
            ],
        ),
        (
            {"set": build_constraint("block") | {"spread": {"domain": "rack"}}},
            [
                f'{SET}.spread.domain: Invalid value: "rack": must not be narrower than the '
                'domain each replica is packed into ("block")'
            ],
        ),
        (
            {"set": build_constraint("Rack")},
            [
                f'{SET}.pack.required: Invalid value: "Rack": expected `str` matching regex '
                "'^[a-z][a-z0-9-]*$'"
            ],
        ),
    ],
)
def test_invalid_constraints_are_rejected(constraints, problems):
    assert validate_set(build_constrained_set(**constraints)) == problems


def test_constraint_of_another_group_is_not_compared():
    written = set_field(
        build_constrained_set(group=build_constraint("host")),
        "spec.template.cliques[1].topologyConstraint",
        build_constraint("zone"),
    )
    assert validate_set(written) == []


def test_constraints_are_rejected_when_topology_is_disabled():
    off = ValidationContext(OperatorSettings(topology=False), CONTEXT.topologies)
    assert validate_set(
        build_constrained_set(
            set=build_constraint("rack"), clique=build_constraint("host", name="")
        ),
        off,
    ) == [
        f"{path}: Forbidden: topology constraints are disabled in this cluster"
        for path in (SET, CLIQUE)
    ]
    assert validate_set(PLAIN, off) == []


def test_preference_without_effect_warns():
    written = apply_defaults(build_constrained_set(set=build_constraint("rack", "zone")))
    result = validate_create(written, CONTEXT)
    assert result.errors == ()
    assert result.warnings == (
        f'{SET}.pack.preferred: has no effect: "zone" is broader than "rack", which is required',
    )


# --- changes


def list_change_errors(old: Any, new: Any) -> list[str]:
    problems = validate_update(apply_defaults(old), apply_defaults(new), CONTEXT).errors
    return [f"{each.field}: {each.message}" for each in problems]


@pytest.mark.parametrize(
    ("old", "new", "problems"),
    [
        (build_constraint("rack"), build_constraint("rack"), []),
        (
            build_constraint("rack"),
            build_constraint("host"),
            [f'{SET}.pack.required: Invalid value: "host": field is immutable: it was "rack"'],
        ),
        (
            build_constraint("rack"),
            build_constraint("rack", "host"),
            [f'{SET}.pack.preferred: Invalid value: "host": field is immutable: it was unset'],
        ),
        (
            build_constraint("rack"),
            build_constraint("rack", name="u"),
            [f'{SET}.topologyName: Invalid value: "u": field is immutable: it was "t"'],
        ),
        (
            build_constraint("rack"),
            build_constraint("rack") | {"spread": {"domain": "zone"}},
            [f"{SET}.spread: Forbidden: field is immutable"],
        ),
        (
            build_constraint("rack"),
            {"topologyName": "t", "packDomain": "rack"},
            [f"{SET}.packDomain: Forbidden: is deprecated; use pack.required"],
        ),
        # A deprecated field may be replaced by its successor and be given a topology name.
        ({"topologyName": "t", "packDomain": "rack"}, build_constraint("rack"), []),
        ({"packDomain": "rack"}, {"packDomain": "rack", "topologyName": "t"}, []),
        ({"packDomain": "rack"}, build_constraint("rack"), []),
        (
            {"packDomain": "rack"},
            {"packDomain": "host", "topologyName": "t"},
            [f'{SET}.packDomain: Invalid value: "host": field is immutable: it was "rack"'],
        ),
        (
            {"packDomain": "rack"},
            {"packDomain": "rack", "topologyName": "u"},
            [f'{SET}.topologyName: Not found: "u": the ClusterTopologyBinding does not exist'],
        ),
        (
            {"packDomain": "numa"},
            {"packDomain": "numa", "topologyName": "t"},
            [
                f'{SET}.packDomain: Invalid value: "numa": topology "t" has no such level; '
                "its levels are zone, block, rack, host"
            ],
        ),
    ],
)
def test_constraint_is_immutable(old, new, problems):
    assert (
        list_change_errors(build_constrained_set(set=old), build_constrained_set(set=new))
        == problems
    )


def test_a_constraint_is_neither_added_nor_removed():
    assert list_change_errors(PLAIN, build_constrained_set(clique=build_constraint("rack"))) == [
        f"{CLIQUE}: Forbidden: cannot be added to an existing PodCliqueSet"
    ]
    assert list_change_errors(build_constrained_set(group=build_constraint("rack")), PLAIN) == [
        f"{GROUP}: Forbidden: cannot be removed from an existing PodCliqueSet"
    ]


def test_deprecated_field_warns_at_every_change():
    old = apply_defaults(build_constrained_set(set={"topologyName": "t", "packDomain": "rack"}))
    result = validate_update(old, set_field(old, "spec.template.terminationDelay", "1h"), CONTEXT)
    assert result.errors == ()
    assert result.warnings == (f"{SET}.packDomain: is deprecated; use pack.required",)


def test_set_can_be_updated_when_its_topology_is_deleted():
    old = apply_defaults(build_constrained_set(set=build_constraint("rack")))
    new = set_field(old, "spec.replicas", 5)
    assert validate_update(old, new, ValidationContext()).errors == ()


# --- topologies themselves


def build_topology(*levels: tuple[str, str], schedulers: tuple[str, ...] = ()) -> dict[str, Any]:
    bindings = [{"schedulerName": each, "topologyReference": "theirs"} for each in schedulers]
    listed = [{"domain": domain, "key": key} for domain, key in levels]
    return {"spec": {"levels": listed, "schedulerTopologyBindings": bindings}}


FORMER_FIELD = "(formerly spec.schedulerTopologyReferences[{}].schedulerName)"
BINDINGS = "spec.schedulerTopologyBindings"


@pytest.mark.parametrize(
    ("obj", "problems"),
    [
        (build_topology(("zone", "example.com/zone"), ("rack", "rack")), []),
        (build_topology(("zone", "z"), schedulers=("kai-scheduler", "kilonova-scheduler")), []),
        (
            build_topology(("zone", "z"), ("zone", "r")),
            ['spec.levels[1].domain: Duplicate value: "zone"'],
        ),
        (
            build_topology(("zone", "z"), ("rack", "z")),
            ['spec.levels[1].key: Duplicate value: "z"'],
        ),
        (
            build_topology(("zone", "not a key")),
            [
                'spec.levels[0].key: Invalid value: "not a key": must be a label key: name '
                "part must be 1 to 63 letters, digits, '-', '_' or '.', and start and end with a "
                "letter or digit"
            ],
        ),
        (
            build_topology(("zone", "z"), schedulers=("kai-scheduler", "kai-scheduler")),
            [
                f'{BINDINGS}[1].schedulerName: Duplicate value: "kai-scheduler": only one '
                f"topology is allowed for each scheduler {FORMER_FIELD.format(1)}"
            ],
        ),
        (
            build_topology(("zone", "z"), schedulers=("nobody",)),
            [
                f'{BINDINGS}[0].schedulerName: Invalid value: "nobody": scheduler backend is not '
                f"enabled in Grove {FORMER_FIELD.format(0)}"
            ],
        ),
        (
            build_topology(("zone", "z"), schedulers=("default-scheduler",)),
            [
                f'{BINDINGS}[0].schedulerName: Invalid value: "default-scheduler": scheduler '
                f"backend does not implement topology-aware scheduling {FORMER_FIELD.format(0)}"
            ],
        ),
        (
            build_topology(),
            ["spec.levels: Invalid value: []: expected `array` of length >= 1"],
        ),
    ],
)
def test_a_topology_has_distinct_levels(obj, problems):
    result = validate_topology(obj, OperatorSettings())
    assert [f"{each.field}: {each.message}" for each in result.errors] == problems
