"""The cost limit cancels expensive CEL expressions and does not affect others."""

import subprocess
import sys

import pytest

from kilonova.cel.environment import CompileError, EvaluationError
from tests.cel.conditions import evaluate

EXHAUSTED = "operation cancelled: actual cost limit exceeded"

LONG = "x" * 30_000

BOMBS = {
    "range": "lists.range(100000000).size() > 0",
    "range, with another way out": "lists.range(100000000).size() > 0 || true",
    "replace": "object.text" + ".replace('a', 'aaaaaaaaaaaaaaaa')" * 10 + ".size() > 0",
    "replace of nothing": f"object.text.replace('', '{LONG}').replace('', '{LONG}') != ''",
    "doubled text": "[object.text]" + ".map(x, x + x)" * 20 + ".size() > 0",
    "doubled list": "[object.list]" + ".map(x, x + x)" * 20 + ".size() > 0",
    "list in itself": "[[[1]]" + ".map(x, [x, x])" * 25 + "].all(x, x == x)",
    "map in itself": "[{'a': dyn(1)}]" + ".map(x, {'a': dyn(x), 'b': dyn(x)})" * 20 + " == []",
    "optional in itself": (
        "[optional.of(dyn(1))]"
        + ".map(x, optional.of(dyn([x.value(), x.value()])))" * 20
        + ".all(x, x == x)"
    ),
    "flatten": "lists.range(900).map(x, lists.range(100000)).flatten().size() > 0",
    "join": f"lists.range(9000).map(x, object.text).join('{LONG}') != ''",
    "format": f"lists.range(9000).all(x, '%s{LONG}'.format([object.text]) != '')",
    "sort": "lists.range(9000).all(x, object.list.sort() == object.list)",
    "split": f"object.text.replace('a', '{LONG}').split('').size() > 0",
    "findAll": f"object.text.replace('a', '{LONG}').findAll('x').size() > 0",
    "query": f"url('/?' + object.text.replace('a', '{LONG}&')).getQuery().size() > 0",
    "constants": f"lists.range(9000).map(x, '{LONG}').size() > 0",
    "concatenation": f"lists.range(9000).all(x, '{LONG}' + object.text != '')",
    "sets": "sets.contains(lists.range(100000), lists.range(100001))",
    "distinct": "lists.range(9000).map(x, [x]).distinct().size() > 0",
    "patterns": "lists.range(9000).all(x, " + "&&".join(["object.text.matches('b*')"] * 999) + ")",
    "comparisons": "[lists.range(1000000)].all(x, " + "&&".join(["x == x"] * 999) + ")",
    "searches in a list": "[lists.range(1000000)].all(x, " + "||".join(["-1 in x"] * 999) + ")",
    **{
        f"{call}, again and again": (
            f"[object.text.replace('a', '{LONG}')].all(x, " + "||".join([call] * 999) + ")"
        )
        for call in (
            "'a'.replace('b', x) == 'b'",
            "x.replace('x', 'c') == 'b'",
            "x.substring(1) == 'a'",
            "x + x == 'a'",
            "[].join(x) == 'b'",
            "[x] == []",
            "{'a': 1}[x] == 1",
            "int(x) == 1",
            "quantity(x).isInteger()",
        )
    },
    "long body": "lists.range(9000).all(x, " + "&&".join(["x < 10000"] * 3000) + ")",
}

RUN = """
import re, sys, time
from pathlib import Path
from kilonova.cel.environment import Environment, EvaluationError
environment = Environment(("object",))
program = environment.compile(sys.stdin.read(), {})
values = {"object": {"text": "a" * 1000, "list": list(range(1000))}}
started = time.thread_time()
try:
    program.run(environment.bind(values))
except EvaluationError as error:
    print(error)
print(round(time.thread_time() - started, 2))
# Not ru_maxrss: it counts the memory of the parent at the time of the fork, too.
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) >> 10)
"""


@pytest.mark.parametrize("source", BOMBS.values(), ids=BOMBS.keys())
def test_expression_is_cancelled_at_its_cost_limit(source: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=source, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    error, seconds, mebibytes = done.stdout.splitlines()
    assert error == EXHAUSTED
    assert float(seconds) < 5
    assert int(mebibytes) < 512


@pytest.mark.parametrize(
    "source",
    [
        "lists.range(9900).map(x, x + 1)[9899] == 9900",
        "lists.range(4900).filter(x, x % 2 == 0).map(x, string(x)).join(',').size() > 9000",
        "lists.range(100).map(x, [[x]])[70] == [[70]]",
        "lists.range(40).map(x, lists.range(40).map(y, x * y))[39][39] == 1521",
        "lists.range(40).transformList(i, v, v > 35, i + v) == [72, 74, 76, 78]",
        "lists.range(-1) == [] && lists.range(0) == []",
        "[{'n': 'b'}, {'n': 'a'}].sortBy(x, x.n).map(x, x.n) == ['a', 'b']",
        "[1u, 2u].map(x, x + 1u) == [2u, 3u] && type([1u][0]) == uint",
        "'abc'.replace('', '-') == '-a-b-c-' && 'abc'.replace('', '-', 2) == '-a-bc'",
        "'aaa'.replace('a', 'b', 0) == 'aaa' && 'aaa'.replace('a', 'b', -1) == 'bbb'",
        "[].join(',') == '' && ['a'].join() == 'a'",
        "object.text + 'b' + object.text != object.text && 1 + object.list[0] == 1",
        "[?object.?text, ?object.?none] == [object.text] && {?'a': object.?none} == {}",
        "[object.?text, object.?none].map(x, x.hasValue()) == [true, false]",
        "object.list.all(x, x in object.list) && object.list == object.list",
        "[timestamp('2024-01-01T00:00:00Z')].map(t, t.getFullYear()) == [2024]",
        "object.text" + ".replace('a', 'a')" * 24 + " == object.text",
        "object.text" + " + object.text.lowerAscii()" * 24 + " != object.text",
    ],
)
def test_expression_within_the_limits_is_unaffected(source: str) -> None:
    assert evaluate(source, object={"text": "a" * 1000, "list": list(range(90))}) is True


def test_join_requires_strings() -> None:
    with pytest.raises(EvaluationError, match="no such overload"):
        evaluate("object.join(',') == ''", object=[1])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("object" + ".lowerAscii()" * 24 + " == ''", "nested too deeply"),
        ("[[optional.of(1)]].all(x, [x, x] == [])", "an optional inside another value"),
    ],
)
def test_expression_that_cannot_be_metered_is_rejected(source: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        evaluate(source, object="")
