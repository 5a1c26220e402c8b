"""Answers of Prometheus' query API. What is no number is no value: it never refuses requests."""

import pytest

from kilonova.serving.signals.prometheus import QueryFailed, parse_answer


@pytest.mark.parametrize(
    ("data", "values"),
    [
        ('{"resultType":"vector","result":[]}', []),
        (
            '{"resultType":"vector","result":[{"metric":{},"value":[1.5,"2"]},'
            '{"metric":{"a":"b"},"value":[1.5,"1e-05"]}]}',
            [2.0, 1e-05],
        ),
        ('{"resultType":"vector","result":[{"metric":{},"value":[1,"NaN"]}]}', []),
        ('{"resultType":"vector","result":[{"metric":{},"value":[1,"+Inf"]}]}', []),
        ('{"resultType":"scalar","result":[1.5,"3"]}', [3.0]),
    ],
)
def test_values_of_an_answer(data: str, values: list[float]) -> None:
    answer = f'{{"status":"success","data":{data}}}'
    assert parse_answer(200, answer.encode()) == values


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (400, '{"status":"error","errorType":"bad_data","error":"parse error"}', "parse error"),
        (502, "<html>Bad gateway</html>", "HTTP 502, not an answer of Prometheus"),
        (200, "", "HTTP 200, not an answer of Prometheus"),
        *(
            (200, f'{{"status":"success","data":{data}}}', "HTTP 200, not an answer of Prometheus")
            for data in (
                "null",
                '{"resultType":"scalar","result":[]}',
                '{"resultType":"scalar","result":"3"}',
                '{"resultType":"vector","result":{"a":1}}',
                '{"resultType":"vector","result":[{"metric":{}}]}',
                '{"resultType":"vector","result":[{"value":null}]}',
                '{"resultType":"vector","result":[{"value":[1]}]}',
            )
        ),
        (
            200,
            '{"status":"success","data":{"resultType":"matrix","result":[]}}',
            "the expression is a matrix, not a vector or scalar",
        ),
    ],
)
def test_what_is_no_answer_is_stated(status: int, body: str, problem: str) -> None:
    with pytest.raises(QueryFailed) as caught:
        parse_answer(status, body.encode())
    assert str(caught.value) == problem
