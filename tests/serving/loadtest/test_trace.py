"""Traces are read, and what is no trace is explained."""

from pathlib import Path

import pytest

from kilonova.serving.loadtest.outcome import RequestSize
from kilonova.serving.loadtest.trace import TraceError, TraceRequest, read_trace


def test_seconds_are_relative_to_the_first_request(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("time,prompt_tokens\n7.5,\n5,12\n")
    assert read_trace(file) == (
        TraceRequest(0.0, RequestSize(12, None)),
        TraceRequest(2.5, RequestSize(None, None)),
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "has no column `time`"),
        ("when\n1\n", "has no column `time`"),
        ("time\n", "has no requests"),
        ("time\nsoon\n", "line 2: 'soon' is no time: write seconds"),
        ("time,prompt_tokens\n1,many\n", "line 2: prompt_tokens is 'many'"),
        ("time,prompt_tokens\n1,-4\n", "line 2: prompt_tokens is '-4'"),
    ],
)
def test_file_that_is_no_trace_is_explained(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "t.csv"
    file.write_text(content)
    with pytest.raises(TraceError, match=problem):
        read_trace(file)


def test_missing_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        read_trace(tmp_path / "none.csv")
