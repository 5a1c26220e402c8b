"""Expressions of webhooks and policies: what they can speak of, and what they come to."""

from typing import Any

import pytest

from kilonova.local.admission.conditions import ConditionsFailed, compiled_conditions
from kilonova.local.admission.expressions import Language, Values
from kilonova.local.schema.cel.environment import CompileError, EvaluationError
from kilonova.local.schema.cel.functions.authorization import (
    Decision,
    Question,
    authorizer,
    resource_check,
)

OBJECT = {"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"n": 2}}


def values(language: Language, asked: list[Question] | None = None, **more: Any) -> Values:
    def decide(question: Question) -> Decision:
        if asked is not None:
            asked.append(question)
        return Decision(question["verb"] == "get", "so it is")

    seen: dict[str, Any] = {
        "object": OBJECT,
        "oldObject": None,
        "request": {"operation": "CREATE", "userInfo": {"username": "me"}},
        "namespaceObject": None,
        "authorizer": authorizer(),
        "authorizer.requestResource": resource_check({"group": "", "resource": "pods"}),
        **more,
    }
    return Values(language, seen, decide)


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("object.metadata.name == 'a' && request.operation == 'CREATE'", True),
        ("request.userInfo.username == 'me'", True),
        ("object == null", False),
        ("oldObject == null", True),
        # What is null has no fields, and may be looked into all the same.
        ("has(oldObject.spec)", False),
        ("oldObject.?spec.orValue(1) == 1", True),
        ("has(namespaceObject.metadata)", False),
        ("timestamp(object.metadata.creationTimestamp) < timestamp('2026-02-01T00:00:00Z')", True),
        ("quantity('1Gi').isGreaterThan(quantity('1Mi'))", True),
        ("authorizer.group('apps').resource('deployments').check('get').allowed()", True),
        ("authorizer.group('apps').resource('deployments').check('delete').allowed()", False),
        ("authorizer.path('/healthz').check('get').allowed()", True),
        ("authorizer.requestResource.check('get').reason() == 'so it is'", True),
    ],
)
def test_an_expression_sees_the_write(source: str, result: bool) -> None:
    language = Language()
    assert values(language).run(language.compile(source, "bool")) is result


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("oldObject.spec == 1", "no such key: spec"),
        ("oldObject['spec'] == 1", "no such key: spec"),
        ("request.name == 'a'", "no such key: name"),
        ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        ("authorizer.serviceAccount('a', 'B').path('/').check('get').allowed()", "Invalid service"),
    ],
)
def test_an_expression_that_fails_says_why(source: str, told: str) -> None:
    language = Language()
    with pytest.raises(EvaluationError, match=told):
        values(language).run(language.compile(source, "bool"))


def test_an_expression_that_would_take_forever_is_given_up() -> None:
    digits = "[0,1,2,3,4,5,6,7,8,9]"
    source = "true"
    for name in "abcdef":
        source = f"{digits}.all({name}, {source})"
    language = Language()
    with pytest.raises(EvaluationError, match="actual cost limit exceeded"):
        values(language).run(language.compile(source, "bool"))


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("objct == null", "undeclared reference to 'objct'"),
        ("request.foo == 1", "undefined field 'foo'"),
        ("namespaceObject.spec.foo == 1", "undefined field 'foo'"),
        ("params == null", "undeclared reference to 'params'"),
        ("variables.a == 1", "undeclared reference to 'variables'"),
        ("object.spec", "must evaluate to bool but got dyn"),
        ("'a'", "must evaluate to bool but got string"),
        ("object.", "Syntax error"),
    ],
)
def test_an_expression_that_is_wrong_is_not_compiled(source: str, told: str) -> None:
    with pytest.raises(CompileError, match=told):
        Language().compile(source, "bool")


def test_a_message_of_text_and_something_is_text() -> None:
    language = Language(params=True)
    program = language.compile("'at most ' + params.data.most", "string")
    assert values(language, params={"data": {"most": "3"}}).run(program) == "at most 3"


def test_who_is_asked_about_hears_all_of_the_question() -> None:
    language = Language()
    asked: list[Question] = []
    program = language.compile(
        "authorizer.serviceAccount('ns', 'me').group('apps').resource('deployments')"
        ".subresource('scale').namespace('x').name('y').labelSelector('a=b').check('patch')"
        ".allowed()",
        "bool",
    )
    assert values(language, asked).run(program) is False
    (question,) = asked
    assert question == {
        "user": "system:serviceaccount:ns:me",
        "group": "apps",
        "resource": "deployments",
        "subresource": "scale",
        "namespace": "x",
        "name": "y",
        "verb": "patch",
    }


def with_variables(**sources: str) -> Language:
    language = Language(variables=sources)
    for name, source in sources.items():
        language.define(name, source)
    return language


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("variables.n == 2", True),
        ("variables.more == 3", True),
        ("variables.born < timestamp('2027-01-01T00:00:00Z')", True),
        ("variables.born + variables.hour > variables.born", True),
        ("variables.names == ['a', 'b']", True),
        ("variables.amount.isGreaterThan(quantity('1M'))", True),
        # One that fails matters only where it is needed.
        ("true || variables.broken == 1", True),
        ("variables.broken == 1 || variables.n == 2", True),
    ],
)
def test_variables_are_computed_where_they_are_needed(source: str, result: bool) -> None:
    language = with_variables(
        n="object.spec.n",
        more="variables.n + 1",
        born="timestamp(object.metadata.creationTimestamp)",
        hour="duration('1h')",
        names="['a', 'b'].filter(x, true)",
        amount="quantity('1G')",
        broken="object.none.x",
    )
    assert values(language).run(language.compile(source, "bool")) is result


def test_what_rests_on_a_broken_variable_fails_with_it() -> None:
    language = with_variables(broken="object.none.x", next="variables.broken + 1")
    program = language.compile("variables.next == 1", "bool")
    told = (
        'composited variable "next" fails to evaluate: composited variable "broken" fails to '
        "evaluate: no such key: none"
    )
    with pytest.raises(EvaluationError, match=told):
        values(language).run(program)


def test_variables_see_only_those_before_them() -> None:
    language = with_variables(first="variables.second", second="variables.second + 1")
    for name in ("variables.first", "variables.second"):
        assert language.variables[name].program is None
        assert "undefined field 'second'" in language.variables[name].problem


@pytest.mark.parametrize(
    ("sources", "ignore", "outcome"),
    [
        ([], False, True),
        (["true", "object.spec.n == 2"], False, True),
        (["true", "false"], False, False),
        (["object.x == 1", "false"], False, False),
        (["object.x == 1", "true"], True, False),
        (["object.x == 1"], False, "expression 'object.x == 1' resulted in error: no such key: x"),
        (["object.x == 1", "object.y == 1"], False, r"\[expression 'object.x == 1' .*, expression"),
        (["nonsense"], False, "compilation error: compilation failed"),
    ],
)
def test_conditions_hold_all_together(
    sources: list[str], ignore: bool, outcome: bool | str
) -> None:
    language = Language()
    written = [{"name": source, "expression": source} for source in sources]
    conditions = compiled_conditions(written, language, ignore)
    if isinstance(outcome, str):
        with pytest.raises(ConditionsFailed, match=outcome):
            conditions.hold(values(language))
    else:
        assert conditions.hold(values(language)) is outcome


def test_variables_that_double_each_other_end_early() -> None:
    language = Language(variables=[f"v{index}" for index in range(40)])
    language.define("v0", "object.metadata.name")
    for index in range(1, 40):
        language.define(f"v{index}", f"variables.v{index - 1} + variables.v{index - 1}")
    program = language.compile("size(variables.v39) > 0", "bool")
    with pytest.raises(EvaluationError, match="actual cost limit exceeded"):
        values(language).run(program)


def test_more_than_there_is_memory_is_a_failure_of_the_expression() -> None:
    language = Language()
    program = language.compile("lists.range(4000000000000000).size() > 0", "bool")
    with pytest.raises(EvaluationError, match="actual cost limit exceeded"):
        values(language).run(program)
