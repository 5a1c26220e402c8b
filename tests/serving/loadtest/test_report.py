"""Results as text and as a page."""

import xml.etree.ElementTree as ET

import pytest

from kilonova.serving.loadtest.analysis import RunReport, compute_result
from kilonova.serving.loadtest.objectives import parse_objectives
from kilonova.serving.loadtest.outcome import Outcome, TargetDescription
from kilonova.serving.loadtest.profile import parse_profile
from kilonova.serving.loadtest.recorder import Recorder
from kilonova.serving.loadtest.report import format_page, format_result
from kilonova.serving.loadtest.report.charts import build_axis
from kilonova.serving.loadtest.result import LoadResult
from kilonova.serving.loadtest.runner import LoadPlan, RunProgress


@pytest.fixture
def result() -> LoadResult:
    recorder = Recorder()
    for number in range(100):
        start = number / 10
        outcome = (
            Outcome("503", False, "<script>alert(1)</script>\x1b[31m")
            if number % 10 == 0
            else Outcome("200", True, completion_tokens=2)
        )
        recorder.add(start, start, start + 0.05 + number / 1000, outcome, 0.0)
    description = TargetDescription("http://127.0.0.1:8000", "openai", "tiny <1b>")
    plan = LoadPlan(kind="closed", profile=parse_profile("5s:1,5s:2-4"))
    report = RunReport(description, plan, objectives=parse_objectives("latency=100ms"))
    return compute_result(report, recorder, RunProgress(0.0, 10.0))


def test_text_has_all_figures(result: LoadResult) -> None:
    lines = format_result(result).splitlines()
    assert lines[:4] == [
        "Target       http://127.0.0.1:8000 (openai, model tiny <1b>)",
        "Load         closed loop, 10 s",
        "Requests     100: 90 succeeded, 10 failed",
        "Throughput   8.9 requests/s",
    ]
    cells = [line.split() for line in lines]
    assert ["request", "100", "99.00", "139", "145", "149", "149"] in cells
    assert ["1", "1", "5", "50", "5", "9.0"] in [line[:6] for line in cells]
    assert ["2", "2-4", "5", "50", "5", "9.0"] in [line[:6] for line in cells]
    assert ["all", f"{result.attainment:g}", "%"] in cells
    assert ["503", "10", "<script>alert(1)</script>[31m"] in cells


def test_page_is_whole_and_has_no_markup_of_servers(result: LoadResult) -> None:
    page = format_page(result)
    assert "<script" not in page
    assert "http" not in page.replace("http://127.0.0.1:8000", "")  # nothing from elsewhere
    body = page.removeprefix("<!doctype html>").replace('<meta charset="utf-8">', "")
    start = body.index("<body>")
    tree = ET.fromstring(body[start:].removesuffix("</html>\n").strip())
    assert len(tree.findall("figure/svg")) == 3
    assert "model tiny <1b>" in (tree.findtext("h1") or "")
    assert [each.text for each in tree.findall("dl/div/dd")][:2] == ["100", "10"]


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (0.0, ["0", "0.2"]),
        (1.0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (13.0, ["0", "5", "10", "15"]),
        (1000.0, ["0", "200", "400", "600", "800", "1000"]),
        (0.0007, ["0", "0.0002", "0.0004", "0.0006", "0.0008"]),
    ],
)
def test_axis_has_round_numbers(highest: float, ticks: list[str]) -> None:
    axis = build_axis(highest)
    assert [text for _, text in axis.ticks] == ticks
    assert axis.high >= highest
