"""Rules for names, labels and annotations of sets and cliques (1, 6 and 7)."""

import pytest

from tests.workloads.admission.full_set import (
    CLIQUES,
    GROUPS,
    LABEL_RULE,
    validate_object,
    with_changed_field,
)
from tests.workloads.admission.set_manifests import JsonObject, clique, group, pod_clique_set

RESERVED = "keys with the prefix grove.io/ are reserved for the operator: remove it"
LONG = "n" * 40


@pytest.mark.parametrize(
    ("obj", "problems"),
    [
        # 1: the name
        (
            pod_clique_set(name="Set_1"),
            [f'metadata.name: Invalid value: "Set_1": {LABEL_RULE}'],
        ),
        (
            pod_clique_set(name="a.set"),
            [
                'metadata.name: Invalid value: "a.set": must not contain dots: host names and '
                "Services are derived from it"
            ],
        ),
        # 6: cliques
        (
            with_changed_field(CLIQUES, []),
            [
                f"{CLIQUES}: Required value: at least one clique is needed",
                *(
                    f'{GROUPS}[0].cliqueNames[{place}]: Not found: "{name}": must be the name of '
                    "a clique of this set"
                    for place, name in enumerate(("leader", "worker"))
                ),
            ],
        ),
        (
            pod_clique_set(clique("")),
            [f"{CLIQUES}[0].name: Required value: must not be empty"],
        ),
        (
            pod_clique_set(clique("Not-good")),
            [f'{CLIQUES}[0].name: Invalid value: "Not-good": {LABEL_RULE}'],
        ),
        (
            pod_clique_set(clique("a"), clique("a", roleName="other")),
            [f'{CLIQUES}[1].name: Duplicate value: "a"'],
        ),
        (
            pod_clique_set(clique("a", roleName="r"), clique("b", roleName="r")),
            [f'{CLIQUES}[1].spec.roleName: Duplicate value: "r"'],
        ),
        (
            with_changed_field(f"{CLIQUES}[0].labels", {"good": "b/d"}),
            [
                f'{CLIQUES}[0].labels: Invalid value: "b/d": must be empty, or up to 63 letters, '
                "digits, '-', '_' or '.' that start and end with a letter or digit"
            ],
        ),
        (
            with_changed_field(f"{CLIQUES}[0].annotations", {"-bad": "anything"}),
            [
                f'{CLIQUES}[0].annotations: Invalid value: "-bad": name part must be 1 to 63 '
                "letters, digits, '-', '_' or '.', and start and end with a letter or digit"
            ],
        ),
        (
            with_changed_field(f"{CLIQUES}[0].labels", {"grove.io/base-podgang": "x"}),
            [f'{CLIQUES}[0].labels: Invalid value: "grove.io/base-podgang": {RESERVED}'],
        ),
        (
            with_changed_field(f"{CLIQUES}[0].annotations", {"grove.io/incarnation": "5"}),
            [f'{CLIQUES}[0].annotations: Invalid value: "grove.io/incarnation": {RESERVED}'],
        ),
        (
            with_changed_field(f"{CLIQUES}[0].annotations", {"big": "x" * 262144}),
            [f"{CLIQUES}[0].annotations: Too long: may not be more than 262144 bytes"],
        ),
        # 7: lengths
        (
            pod_clique_set(clique("abcdef"), name=LONG),
            [
                f'{path}: Invalid value: "{name}": the names that pod names are composed '
                f'of must have at most 45 characters in total: "{LONG}" + "abcdef" has 46'
                for path, name in (("metadata.name", LONG), (f"{CLIQUES}[0].name", "abcdef"))
            ],
        ),
        (
            pod_clique_set(clique("abc"), groups=(group("def", "abc"),), name=LONG),
            [
                f'{path}: Invalid value: "{name}": the names that pod names are composed '
                f'of must have at most 45 characters in total: "{LONG}" + "def" + "abc" has 46'
                for path, name in (
                    ("metadata.name", LONG),
                    (f"{GROUPS}[0].name", "def"),
                    (f"{CLIQUES}[0].name", "abc"),
                )
            ],
        ),
    ],
)
def test_invalid_name_is_rejected(obj: JsonObject, problems: list[str]) -> None:
    assert validate_object(obj) == problems


def test_name_conflicts_are_rejected() -> None:
    clashing = pod_clique_set(clique("a-0-b"), clique("b"), groups=(group("a", "b"),))
    assert validate_object(clashing) == [
        "spec.template: Invalid value: clique a-0-b and clique b of scaling group a would have "
        "the same PodClique name: rename one of them"
    ]
