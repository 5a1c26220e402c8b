"""Object and patch literals in expressions, rewritten to maps."""

from typing import Any

import pytest

from kilonova.local.apiserver.admission.policies.literals import rewrite_typed_literals, strip_types


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("Object{}", '{"@type": dyn("Object")}'),
        (
            "Object{spec: Object.spec{n: 3}}",
            '{"@type": dyn("Object"), "spec": dyn({"@type": dyn("Object.spec"), "n": dyn(3)})}',
        ),
        ("[JSONPatch{op: 'add', path: p}]", '[{"op": dyn(\'add\'), "path": dyn(p)}]'),
        ("JSONPatch{op: a ? b : c, }", '{"op": dyn(a ? b : c)}'),
        (
            "JSONPatch{value: {'x': [1, 2]}, op: f(1, 2)}",
            '{"value": dyn({\'x\': [1, 2]}), "op": dyn(f(1, 2))}',
        ),
        ("JSONPatch{?value: object.?x}", '{?"value": object.?x}'),
        ("Object . spec { `a-b`: 1 }", '{"@type": dyn("Object.spec"), "a-b": dyn(1)}'),
        # Lookalikes and malformed literals are not rewritten.
        ("'Object{a: 1}' + \"JSONPatch{}\"", "'Object{a: 1}' + \"JSONPatch{}\""),
        ("r'\\' + 'Object{}'", "r'\\' + 'Object{}'"),
        ("object.Object{a: 1}", "object.Object{a: 1}"),
        ("Objects{a: 1}", "Objects{a: 1}"),
        ("{'a': 1}", "{'a': 1}"),
        ("Object{1: 2}", "Object{1: 2}"),
        ("Object{a: 1", "Object{a: 1"),
        ("Object.{a: 1}", "Object.{a: 1}"),
    ],
)
def test_typed_literals_become_maps(written: str, plain: str) -> None:
    assert rewrite_typed_literals(written) == plain


@pytest.mark.parametrize(
    ("value", "problems"),
    [
        ({"@type": "Object", "spec": {"@type": "Object.spec"}}, []),
        ({"@type": "Object", "spec": {"@type": "Object.metadata"}}, ['"Object.spec"']),
        # Lists and maps in between have no type names.
        ({"@type": "Object", "items": [{"@type": "Object.items"}]}, []),
        ({"@type": "Object", "map": {"a": {"@type": "Object.map"}}}, []),
        ({"@type": "Other"}, ['"Object"']),
    ],
)
def test_type_names_must_match_their_position(value: Any, problems: list[str]) -> None:
    found: list[str] = []
    result = strip_types(value, "Object", found)
    assert "@type" not in repr(result)
    assert len(found) == len(problems)
    for reported, expected in zip(found, problems, strict=True):
        assert f"expected {expected}" in reported
