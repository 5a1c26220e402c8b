"""Expressions of webhooks and policies: their variables and results."""

from typing import Any

import pytest

from kilonova.cel.environment import CompileError, EvaluationError
from kilonova.local.apiserver.admission.expressions import ExpressionBindings, ExpressionCompiler
from kilonova.local.apiserver.admission.match_conditions import (
    MatchConditionsError,
    compile_match_conditions,
)
from kilonova.local.apiserver.schema.cel.authorization import (
    AuthorizationQuery,
    QueryDecision,
    authorizer_value,
    resource_check_value,
)

OBJECT = {"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"n": 2}}


def values(
    compiler: ExpressionCompiler, requested: list[AuthorizationQuery] | None = None, **more: Any
) -> ExpressionBindings:
    def decide(question: AuthorizationQuery) -> QueryDecision:
        if requested is not None:
            requested.append(question)
        return QueryDecision(question["verb"] == "get", "so it is")

    observed: dict[str, Any] = {
        "object": OBJECT,
        "oldObject": None,
        "request": {"operation": "CREATE", "userInfo": {"username": "me"}},
        "namespaceObject": None,
        "authorizer": authorizer_value(),
        "authorizer.requestResource": resource_check_value({"group": "", "resource": "pods"}),
        **more,
    }
    return ExpressionBindings(compiler, observed, decide)


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("object.metadata.name == 'a' && request.operation == 'CREATE'", True),
        ("request.userInfo.username == 'me'", True),
        ("object == null", False),
        ("oldObject == null", True),
        # A null has no fields, but may be selected from.
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
def test_expression_sees_the_write(source: str, result: bool) -> None:
    compiler = ExpressionCompiler()
    assert values(compiler).evaluate(compiler.compile(source, "bool")) is result


@pytest.mark.parametrize(
    ("source", "reported"),
    [
        ("oldObject.spec == 1", "no such key: spec"),
        ("oldObject['spec'] == 1", "no such key: spec"),
        ("request.name == 'a'", "no such key: name"),
        ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        ("authorizer.serviceAccount('a', 'B').path('/').check('get').allowed()", "Invalid service"),
    ],
)
def test_failing_expression_reports_its_error(source: str, reported: str) -> None:
    compiler = ExpressionCompiler()
    with pytest.raises(EvaluationError, match=reported):
        values(compiler).evaluate(compiler.compile(source, "bool"))


def test_endless_expression_times_out() -> None:
    digits = "[0,1,2,3,4,5,6,7,8,9]"
    source = "true"
    for name in "abcdef":
        source = f"{digits}.all({name}, {source})"
    compiler = ExpressionCompiler()
    with pytest.raises(EvaluationError, match="actual cost limit exceeded"):
        values(compiler).evaluate(compiler.compile(source, "bool"))


@pytest.mark.parametrize(
    ("source", "reported"),
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
def test_invalid_expression_is_not_compiled(source: str, reported: str) -> None:
    with pytest.raises(CompileError, match=reported):
        ExpressionCompiler().compile(source, "bool")


def test_concatenated_message_is_a_string() -> None:
    compiler = ExpressionCompiler(params=True)
    program = compiler.compile("'at most ' + params.data.most", "string")
    assert values(compiler, params={"data": {"most": "3"}}).evaluate(program) == "at most 3"


def test_webhook_receives_the_whole_admission_request() -> None:
    compiler = ExpressionCompiler()
    requested: list[AuthorizationQuery] = []
    program = compiler.compile(
        "authorizer.serviceAccount('ns', 'me').group('apps').resource('deployments')"
        ".subresource('scale').namespace('x').name('y').labelSelector('a=b').check('patch')"
        ".allowed()",
        "bool",
    )
    assert values(compiler, requested).evaluate(program) is False
    (question,) = requested
    assert question == {
        "user": "system:serviceaccount:ns:me",
        "group": "apps",
        "resource": "deployments",
        "subresource": "scale",
        "namespace": "x",
        "name": "y",
        "verb": "patch",
    }


def with_variables(**sources: str) -> ExpressionCompiler:
    compiler = ExpressionCompiler(variables=sources)
    for name, source in sources.items():
        compiler.define_variable(name, source)
    return compiler


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("variables.n == 2", True),
        ("variables.more == 3", True),
        ("variables.born < timestamp('2027-01-01T00:00:00Z')", True),
        ("variables.born + variables.hour > variables.born", True),
        ("variables.names == ['a', 'b']", True),
        ("variables.amount.isGreaterThan(quantity('1M'))", True),
        # A failing variable matters only where it is used.
        ("true || variables.broken == 1", True),
        ("variables.broken == 1 || variables.n == 2", True),
    ],
)
def test_variables_are_evaluated_lazily(source: str, result: bool) -> None:
    compiler = with_variables(
        n="object.spec.n",
        more="variables.n + 1",
        born="timestamp(object.metadata.creationTimestamp)",
        hour="duration('1h')",
        names="['a', 'b'].filter(x, true)",
        amount="quantity('1G')",
        broken="object.none.x",
    )
    assert values(compiler).evaluate(compiler.compile(source, "bool")) is result


def test_expression_fails_with_its_broken_variable() -> None:
    compiler = with_variables(broken="object.none.x", next="variables.broken + 1")
    program = compiler.compile("variables.next == 1", "bool")
    reported = (
        'composited variable "next" fails to evaluate: composited variable "broken" fails to '
        "evaluate: no such key: none"
    )
    with pytest.raises(EvaluationError, match=reported):
        values(compiler).evaluate(program)


def test_variables_see_only_earlier_variables() -> None:
    compiler = with_variables(first="variables.second", second="variables.second + 1")
    for name in ("variables.first", "variables.second"):
        assert compiler.variables[name].program is None
        assert "undefined field 'second'" in compiler.variables[name].problem


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
def test_all_match_conditions_must_hold(
    sources: list[str], ignore: bool, outcome: bool | str
) -> None:
    compiler = ExpressionCompiler()
    written = [{"name": source, "expression": source} for source in sources]
    conditions = compile_match_conditions(written, compiler, ignore)
    if isinstance(outcome, str):
        with pytest.raises(MatchConditionsError, match=outcome):
            conditions.match(values(compiler))
    else:
        assert conditions.match(values(compiler)) is outcome


def test_exponentially_growing_variables_are_stopped() -> None:
    compiler = ExpressionCompiler(variables=[f"v{index}" for index in range(40)])
    compiler.define_variable("v0", "object.metadata.name")
    for index in range(1, 40):
        compiler.define_variable(f"v{index}", f"variables.v{index - 1} + variables.v{index - 1}")
    program = compiler.compile("size(variables.v39) > 0", "bool")
    with pytest.raises(EvaluationError, match="actual cost limit exceeded"):
        values(compiler).evaluate(program)


def test_expression_exceeding_memory_fails() -> None:
    compiler = ExpressionCompiler()
    program = compiler.compile("lists.range(4000000000000000).size() > 0", "bool")
    with pytest.raises(EvaluationError, match="actual cost limit exceeded"):
        values(compiler).evaluate(program)
