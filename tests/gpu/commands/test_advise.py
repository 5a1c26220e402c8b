"""`kilonova gpu advise`: the rung, its reason, and what a pod requests for it."""

import json

import pytest

from kilonova.component.failure import CommandFailed, WrongUsage
from kilonova.gpu.commands.advise import find_advice
from tests.gpu.commands.test_machine_commands import output_of, run

GIB = 1024


@pytest.mark.parametrize(
    ("model", "memory", "compute", "isolation", "rung", "request_"),
    [
        ("H100", 10 * GIB, 10, "none", "MIG", {"nvidia.com/mig-1g.10gb": "1"}),
        ("H200", 60 * GIB, 45, "full", "MIG", {"nvidia.com/mig-3g.71gb": "1"}),
        ("H100", 60 * GIB, 90, "none", "Exclusive", {"nvidia.com/gpu": "1"}),
        (
            "L40S",
            4 * GIB,
            20,
            "memory",
            "MPS",
            {"gpu.kilonova.dev/milli": "200", "gpu.kilonova.dev/memory": "4096"},
        ),
    ],
)
def test_request_gets_its_rung(
    model: str, memory: int, compute: int, isolation: str, rung: str, request_: dict[str, str]
) -> None:
    advice = find_advice(model, memory, compute, isolation)
    assert advice.rung == rung
    assert {each.name: each.value for each in advice.requests} == request_
    assert advice.reason


def test_share_without_compute_is_in_proportion_to_its_memory() -> None:
    advice = find_advice("T4", 4 * GIB, 0, "none", has_mps=False)
    assert advice.rung == "TimeSlice"
    assert advice.rejected[-1].reason == "MPS is not available on the node"
    assert 250 <= int(advice.requests[0].value) <= 300


def test_text_has_the_reasons_against_the_rungs_above() -> None:
    lines = output_of("advise", "--memory", "2Gi", "--compute", "5").splitlines()
    assert lines == [
        "MPS on H100-SXM5-80GB: 5 % of the threads and 2048 MiB are left",
        '  request gpu.kilonova.dev/milli: "50"',
        '  request gpu.kilonova.dev/memory: "2048"',
        "  not Exclusive: less than the device is requested",
        "  not MIG: 1g.10gb would be unused by 60%",
    ]
    found = json.loads(output_of("advise", "--memory", "10Gi", "-o", "json"))
    assert (found["rung"], found["profile"]) == ("MIG", "1g.10gb")


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["--memory", "much"], WrongUsage, "--memory much"),
        (["--memory", "10"], WrongUsage, "write 10Gi for ten gibibytes"),
        (["--memory", "1Gi", "--model", "Voodoo"], WrongUsage, "no GPU of the catalog"),
        (["--memory", "1Gi", "--isolation", "some"], WrongUsage, "expected none, memory, full"),
        (["--memory", "900Gi"], CommandFailed, "no part of H100-SXM5-80GB is enough"),
    ],
)
def test_wrong_request_is_told(words: list[str], error: type[Exception], message: str) -> None:
    failure = run("advise", *words).exception
    assert isinstance(failure, error)
    assert message in str(failure)
