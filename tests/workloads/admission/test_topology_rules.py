"""Rules about topologies: of sets that name them, and of themselves."""

from typing import Any

import pytest

from kilonova.workloads.admission import (
    Context,
    defaulted,
    validate_create,
    validate_topology,
    validate_update,
)
from kilonova.workloads.settings import Settings
from tests.workloads.admission.written import clique, group, pod_clique_set, with_value

SET = "spec.template.topologyConstraint"
GROUP = "spec.template.podCliqueScalingGroups[0].topologyConstraint"
CLIQUE = "spec.template.cliques[0].topologyConstraint"
CONTEXT = Context(topologies={"t": ("zone", "block", "rack", "host")})
PLAIN = pod_clique_set(clique("a"), clique("b"), groups=(group("g", "a"),))


def packed(required: str | None = None, preferred: str | None = None, name: str = "t") -> Any:
    pack = {"required": required, "preferred": preferred}
    constraint: dict[str, Any] = {"pack": {k: v for k, v in pack.items() if v}}
    return constraint | ({"topologyName": name} if name else {})


def constrained(**constraints: Any) -> dict[str, Any]:
    written = PLAIN
    for path, constraint in constraints.items():
        written = with_value(
            written, {"set": SET, "group": GROUP, "clique": CLIQUE}[path], constraint
        )
    return written


def found(obj: dict[str, Any], context: Context = CONTEXT) -> list[str]:
    problems = validate_create(defaulted(obj), context).problems
    return [f"{each.field}: {each.message}" for each in problems]


@pytest.mark.parametrize(
    "constraints",
    [
        {
            "set": packed("zone"),
            "group": packed("rack", name=""),
            "clique": packed("rack", name=""),
        },
        {"set": packed(preferred="rack"), "clique": packed("host", name="")},
        {"group": packed("block"), "clique": packed("rack", "host", name="")},
        {"clique": packed("rack")},
        {"set": packed("rack") | {"spread": {"domain": "block"}}},
        {"set": {"topologyName": "t", "spread": {"domain": "host", "required": True}}},
    ],
)
def test_constraints_that_fit_are_taken(constraints):
    assert found(constrained(**constraints)) == []


@pytest.mark.parametrize(
    ("constraints", "problems"),
    [
        (
            {"set": packed("rack", name="")},
            [f"{SET}.topologyName: Required value: must name a ClusterTopologyBinding"],
        ),
        (
            {"group": packed("rack", name=""), "clique": packed("rack", name="")},
            [
                f"{path}.topologyName: Required value: must name a ClusterTopologyBinding"
                for path in (GROUP, CLIQUE)
            ],
        ),
        (
            {"set": packed("rack"), "clique": packed("host", name="u")},
            [
                f'{CLIQUE}.topologyName: Invalid value: "u": must be the same in all of a set; '
                'another is "t"'
            ],
        ),
        (
            {"set": packed("rack", name="u")},
            [
                f'{SET}.topologyName: Not found: "u": there is no ClusterTopologyBinding of this '
                "name"
            ],
        ),
        (
            {
                "set": packed("region", "row") | {"spread": {"domain": "hall"}},
                "clique": packed("numa", name=""),
            },
            [
                f'{path}: Invalid value: "{domain}": topology "t" has no such level; it has zone, '
                "block, rack, host"
                for path, domain in (
                    (f"{SET}.pack.required", "region"),
                    (f"{SET}.pack.preferred", "row"),
                    (f"{SET}.spread.domain", "hall"),
                    (f"{CLIQUE}.pack.required", "numa"),
                )
            ],
        ),
        (
            {"set": packed("host"), "clique": packed("rack", name="")},
            [
                f'{SET}.pack.required: Invalid value: "host": the set must not be narrower than '
                'clique "a", which has "rack"'
            ],
        ),
        (
            {"set": packed(preferred="rack"), "group": packed(preferred="zone", name="")},
            [
                f'{SET}.pack.preferred: Invalid value: "rack": the set must not be narrower than '
                'scaling group "g", which has "zone"'
            ],
        ),
        (
            {"group": packed("host"), "clique": packed("zone", name="")},
            [
                f'{GROUP}.pack.required: Invalid value: "host": scaling group "g" must not be '
                'narrower than clique "a", which has "zone"'
            ],
        ),
        (
            {"set": packed("block") | {"spread": {"domain": "rack"}}},
            [
                f'{SET}.spread.domain: Invalid value: "rack": must not be narrower than what each '
                'replica is packed into ("block")'
            ],
        ),
        (
            {"set": packed("Rack")},
            [
                f'{SET}.pack.required: Invalid value: "Rack": expected `str` matching regex '
                "'^[a-z][a-z0-9-]*$'"
            ],
        ),
    ],
)
def test_constraints_that_do_not_fit_are_refused(constraints, problems):
    assert found(constrained(**constraints)) == problems


def test_a_clique_of_another_group_does_not_matter():
    written = with_value(
        constrained(group=packed("host")),
        "spec.template.cliques[1].topologyConstraint",
        packed("zone"),
    )
    assert found(written) == []


def test_no_constraints_are_taken_where_topology_is_off():
    off = Context(Settings(topology=False), CONTEXT.topologies)
    assert found(constrained(set=packed("rack"), clique=packed("host", name="")), off) == [
        f"{path}: Forbidden: topology constraints are off in this cluster" for path in (SET, CLIQUE)
    ]
    assert found(PLAIN, off) == []


def test_a_preference_that_has_no_effect_is_pointed_out():
    written = defaulted(constrained(set=packed("rack", "zone")))
    findings = validate_create(written, CONTEXT)
    assert findings.problems == ()
    assert findings.warnings == (
        f'{SET}.pack.preferred: has no effect: "zone" is broader than "rack", which is required',
    )


# --- changes


def changes(old: Any, new: Any) -> list[str]:
    problems = validate_update(defaulted(old), defaulted(new), CONTEXT).problems
    return [f"{each.field}: {each.message}" for each in problems]


@pytest.mark.parametrize(
    ("old", "new", "problems"),
    [
        (packed("rack"), packed("rack"), []),
        (
            packed("rack"),
            packed("host"),
            [f'{SET}.pack.required: Invalid value: "host": field is immutable: it was "rack"'],
        ),
        (
            packed("rack"),
            packed("rack", "host"),
            [f'{SET}.pack.preferred: Invalid value: "host": field is immutable: it was unset'],
        ),
        (
            packed("rack"),
            packed("rack", name="u"),
            [f'{SET}.topologyName: Invalid value: "u": field is immutable: it was "t"'],
        ),
        (
            packed("rack"),
            packed("rack") | {"spread": {"domain": "zone"}},
            [f"{SET}.spread: Forbidden: field is immutable"],
        ),
        (
            packed("rack"),
            {"topologyName": "t", "packDomain": "rack"},
            [f"{SET}.packDomain: Forbidden: is deprecated; use pack.required"],
        ),
        # A deprecated field may be replaced by its successor, and be told its topology.
        ({"topologyName": "t", "packDomain": "rack"}, packed("rack"), []),
        ({"packDomain": "rack"}, {"packDomain": "rack", "topologyName": "t"}, []),
        ({"packDomain": "rack"}, packed("rack"), []),
        (
            {"packDomain": "rack"},
            {"packDomain": "host", "topologyName": "t"},
            [f'{SET}.packDomain: Invalid value: "host": field is immutable: it was "rack"'],
        ),
        (
            {"packDomain": "rack"},
            {"packDomain": "rack", "topologyName": "u"},
            [
                f'{SET}.topologyName: Not found: "u": there is no ClusterTopologyBinding of this '
                "name"
            ],
        ),
        (
            {"packDomain": "numa"},
            {"packDomain": "numa", "topologyName": "t"},
            [
                f'{SET}.packDomain: Invalid value: "numa": topology "t" has no such level; it has '
                "zone, block, rack, host"
            ],
        ),
    ],
)
def test_a_constraint_stays_what_it_is(old, new, problems):
    assert changes(constrained(set=old), constrained(set=new)) == problems


def test_a_constraint_is_neither_added_nor_removed():
    assert changes(PLAIN, constrained(clique=packed("rack"))) == [
        f"{CLIQUE}: Forbidden: cannot be added to a set that exists"
    ]
    assert changes(constrained(group=packed("rack")), PLAIN) == [
        f"{GROUP}: Forbidden: cannot be removed from a set that exists"
    ]


def test_a_deprecated_field_is_pointed_out_at_every_change():
    old = defaulted(constrained(set={"topologyName": "t", "packDomain": "rack"}))
    findings = validate_update(
        old, with_value(old, "spec.template.terminationDelay", "1h"), CONTEXT
    )
    assert findings.problems == ()
    assert findings.warnings == (f"{SET}.packDomain: is deprecated; use pack.required",)


def test_a_set_goes_on_when_its_topology_is_gone():
    old = defaulted(constrained(set=packed("rack")))
    new = with_value(old, "spec.replicas", 5)
    assert validate_update(old, new, Context()).problems == ()


# --- topologies themselves


def topology(*levels: tuple[str, str], schedulers: tuple[str, ...] = ()) -> dict[str, Any]:
    bindings = [{"schedulerName": each, "topologyReference": "theirs"} for each in schedulers]
    listed = [{"domain": domain, "key": key} for domain, key in levels]
    return {"spec": {"levels": listed, "schedulerTopologyBindings": bindings}}


ONCE = "(once spec.schedulerTopologyReferences[{}].schedulerName)"
BINDINGS = "spec.schedulerTopologyBindings"


@pytest.mark.parametrize(
    ("obj", "problems"),
    [
        (topology(("zone", "example.com/zone"), ("rack", "rack")), []),
        (topology(("zone", "z"), schedulers=("kai-scheduler", "kilonova-scheduler")), []),
        (
            topology(("zone", "z"), ("zone", "r")),
            ['spec.levels[1].domain: Duplicate value: "zone"'],
        ),
        (topology(("zone", "z"), ("rack", "z")), ['spec.levels[1].key: Duplicate value: "z"']),
        (
            topology(("zone", "not a key")),
            [
                'spec.levels[0].key: Invalid value: "not a key": must be the key of a label: name '
                "part must be 1 to 63 letters, digits, '-', '_' or '.', and start and end with a "
                "letter or digit"
            ],
        ),
        (
            topology(("zone", "z"), schedulers=("kai-scheduler", "kai-scheduler")),
            [
                f'{BINDINGS}[1].schedulerName: Duplicate value: "kai-scheduler": one topology for '
                f"each scheduler {ONCE.format(1)}"
            ],
        ),
        (
            topology(("zone", "z"), schedulers=("nobody",)),
            [
                f'{BINDINGS}[0].schedulerName: Invalid value: "nobody": scheduler backend is not '
                f"enabled in Grove {ONCE.format(0)}"
            ],
        ),
        (
            topology(("zone", "z"), schedulers=("default-scheduler",)),
            [
                f'{BINDINGS}[0].schedulerName: Invalid value: "default-scheduler": scheduler '
                f"backend does not implement topology-aware scheduling {ONCE.format(0)}"
            ],
        ),
        (
            topology(),
            ["spec.levels: Invalid value: []: expected `array` of length >= 1"],
        ),
    ],
)
def test_a_topology_tells_its_levels_apart(obj, problems):
    findings = validate_topology(obj, Settings())
    assert [f"{each.field}: {each.message}" for each in findings.problems] == problems
