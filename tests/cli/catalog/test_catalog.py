"""`kilonova catalog` and `kilonova --catalog FILE`."""

import json
from pathlib import Path

import pytest

from kilonova.catalog import OVERRIDE_VARIABLE
from kilonova.cli.catalog.tables import format_price
from tests.cli.command import Kilonova


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("gpus",), "GB200 Blackwell 10.0 189471Mi 152 18x v5, 1800 GB/s GB200-186GB $10.50 ?"),
        (("machines",), "t3.large aws 2 8Gi - 5 Gbit/s $0.0832 ?"),
        (("slices", "H200"), "3g.71gb 4 0,4 2 71GB 60 $3.96 $1.68"),
        (("prices",), "machine p5.48xlarge aws us-east-1 $55.04 $20.28 2026-08-22"),
    ],
)
def test_tables(kilonova: Kilonova, words: tuple[str, ...], line: str) -> None:
    done = kilonova("catalog", *words)
    assert done.code == 0
    assert line in [" ".join(each.split()) for each in done.out.splitlines()]


def test_json_has_the_facts_and_their_source(kilonova: Kilonova) -> None:
    models = json.loads(kilonova("catalog", "gpus", "-o", "json").out)
    h200 = next(each for each in models if each["name"] == "H200")
    assert (h200["memory"], h200["sms"], h200["nvlink"]["bandwidth"]) == (143771, 132, 900)
    prices = json.loads(kilonova("catalog", "prices", "-o", "json").out)
    assert all(each["date"] and each["source"] and each["onDemand"] for each in prices)


def test_own_prices_come_first(kilonova: Kilonova) -> None:
    (kilonova.home / "own.yaml").write_text("prices: {gpus: {H100: {onDemand: 2}}}")
    done = kilonova("--catalog", "own.yaml", "catalog", "prices")
    assert done.out.splitlines()[1].split() == [
        "gpu",
        "H100-SXM5-80GB",
        "override",
        "-",
        "$2.00",
        "?",
        "-",
    ]
    named = kilonova("catalog", "slices", "H100", variables={OVERRIDE_VARIABLE: "own.yaml"})
    assert "$0.25" in named.out


def test_an_invalid_file_is_rejected_before_any_command(kilonova: Kilonova, tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("prices: {gpus: {H100: {onDemand: cheap}}}")
    done = kilonova("--catalog", file, "up", "--data", tmp_path / "data")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"kilonova: {file}: prices.gpus.H100.onDemand: 'cheap' is invalid: write a number\n"
    )
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("gpu", "message"),
    [("Abacus", '"Abacus" is not a known GPU model'), ("L4", "L4 does not support MIG")],
)
def test_slices_of_a_gpu_without_any(kilonova: Kilonova, gpu: str, message: str) -> None:
    done = kilonova("catalog", "slices", gpu)
    assert done.code == 1
    assert message in done.err


@pytest.mark.parametrize(
    ("price", "text"), [(None, "?"), (6.88, "$6.88"), (0.0832, "$0.0832"), (0.0, "$0.00")]
)
def test_prices_are_printed_in_cents_unless_too_small(price: float | None, text: str) -> None:
    assert format_price(price) == text
