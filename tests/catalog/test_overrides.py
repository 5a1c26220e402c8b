"""The override file: what it replaces, and what its errors say."""

from pathlib import Path

import pytest

from kilonova.catalog import OverrideError, load_catalog, read_catalog

VALID = """
gpus:
- {name: X1, architecture: Hopper, capability: [9, 0], memory: 81559, products: [ACME-X1]}
- {name: L4, architecture: Ada, capability: [8, 9], memory: 48000, aliases: [L4]}
machines:
- {name: rack-8x, cpu: 192, memory: 2048, gpu: ACME-X1, gpus: 8}
- {name: head, cpu: 8, memory: 32.5}
prices:
  machines: {rack-8x: {onDemand: 24, spot: 9}, 9000: {onDemand: 1}}
"""


def write(folder: Path, text: str) -> str:
    file = folder / "catalog.yaml"
    file.write_text(text)
    return str(file)


def test_own_models_machines_and_prices_take_precedence(tmp_path: Path) -> None:
    text = VALID.replace("9000", '"9000"') + "  gpus: {H100: {onDemand: 2.1}}\n"
    catalog = read_catalog(write(tmp_path, text))
    own = catalog.find_gpu("ACME-X1")
    assert own is not None
    assert own.name == catalog.machines["rack-8x"].gpu == "X1"
    assert catalog.gpu_price("X1") == 3.0
    assert catalog.gpu_price("X1", "spot") == 1.125
    assert catalog.gpu_price("H100-SXM5-80GB") == 2.1
    assert catalog.machine_price("p5.48xlarge") == 55.04
    larger = catalog.find_gpu("NVIDIA-L4")
    assert larger is not None
    assert larger.memory == 48000
    assert catalog.machines["head"].gpus == 0


def test_the_environment_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILONOVA_CATALOG", write(tmp_path, "prices: {gpus: {L4: {onDemand: 9}}}"))
    assert load_catalog().gpu_price("L4") == 9
    monkeypatch.delenv("KILONOVA_CATALOG")
    assert load_catalog().gpu_price("L4") == 0.8048


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    assert read_catalog(write(tmp_path, "")).gpu_price("H200") == 7.912


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (VALID, 'prices.machines: 9000 is not text: write it in quotes, as "9000"'),
        ("[]", "the file: a list is invalid: write fields with values"),
        ("price: {}", "the file: unknown field price: choose from gpus, machines, prices"),
        ("gpus: {}", "gpus: an object is invalid: write a list"),
        ("gpus: [{name: X}]", "gpus[0].architecture: is missing: it is required"),
        (
            "gpus: [{name: X, architecture: A, capability: [1, 0], memory: lots}]",
            "gpus[0].memory: 'lots' is invalid: write a whole number",
        ),
        (
            "gpus: [{name: X, architecture: A, capability: [1, 0], memory: 1, mig: X-1GB}]",
            'gpus[0].mig: "X-1GB" is not a MIG geometry: choose from A100-40GB',
        ),
        (
            "machines: [{name: m, cpu: 1, memory: 1, disk: 3}]",
            "machines[0].disk: unknown field: choose from name, cpu, memory",
        ),
        ("machines: [{name: m, cpu: 0, memory: 1}]", "machines[0].cpu: 0 is invalid"),
        (
            "machines: [{name: m, cpu: 1, memory: 1, gpu: T4}]",
            "machines[0].gpus: 0 does not fit gpu: give both or none",
        ),
        (
            "machines: [{name: m, cpu: 1, memory: 1, gpu: T5, gpus: 1}]",
            'machines[0].gpu: "T5" is not a known GPU model: write a name that '
            "`kilonova catalog gpus` lists",
        ),
        ("prices: {gpu: {}}", "prices: unknown field gpu: choose from machines, gpus, slices"),
        ("prices: {gpus: {Abacus: {onDemand: 1}}}", 'prices.gpus: "Abacus" is not a known GPU'),
        (
            "prices: {gpus: {H100: 2.1}}",
            "prices.gpus.H100: 2.1 is invalid: write fields with values",
        ),
        (
            "prices: {gpus: {H100: {ondemand: 2.1}}}",
            "prices.gpus.H100.ondemand: unknown field: choose from onDemand, spot",
        ),
        (
            "prices: {gpus: {H100: {onDemand: -1}}}",
            "prices.gpus.H100.onDemand: -1 is invalid: write USD per hour between 0 and 10,000",
        ),
        (
            "prices: {slices: {H100: {1g.10gb: {onDemand: cheap}}}}",
            "prices.slices.H100.1g.10gb.onDemand: 'cheap' is invalid: write a number",
        ),
        ("gpus: [", "is not YAML"),
    ],
)
def test_an_error_names_file_field_value_and_fix(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(OverrideError) as error:
        read_catalog(path)
    assert str(error.value).startswith(path)
    assert message in str(error.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OverrideError, match="cannot be read: No such file"):
        read_catalog(str(tmp_path / "missing.yaml"))
