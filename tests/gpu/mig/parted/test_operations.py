"""assert, export and apply of configs on simulated devices, and the label of the node."""

from pathlib import Path

import pytest

from kilonova.gpu.devices.errors import GpuErrorKind
from kilonova.gpu.devices.fault_injection import Fault, FaultyBackend
from kilonova.gpu.devices.simulated import SimulatedBackend
from kilonova.gpu.mig.parted.config_file import ConfigRule, format_config_file, parse_config_file
from kilonova.gpu.mig.parted.default_configs import generate_configs
from kilonova.gpu.mig.parted.labels import CONFIG_LABEL, STATE_LABEL
from kilonova.gpu.mig.parted.node_label import (
    ConfigState,
    decide_config,
    state_labels,
)
from kilonova.gpu.mig.parted.operations import (
    apply_config,
    check_config,
    export_config,
    select_rules,
)
from tests.gpu.devices.machines import simulate
from tests.gpu.mig.engines import request, running_engine, slots

CONFIGS = generate_configs()


def uuids(backend: SimulatedBackend) -> list[str]:
    return [each.uuid for each in backend.read_inventory().devices]


@pytest.mark.parametrize("name", ["all-1g.10gb", "all-balanced", "all-enabled", "all-2g.20gb"])
async def test_config_is_applied_and_asserted(tmp_path: Path, name: str) -> None:
    backend = simulate("h100:2")
    assert check_config(CONFIGS[name], backend.read_inventory())
    async with running_engine(backend, tmp_path) as engine:
        outcome = await apply_config(engine, CONFIGS[name])
    assert outcome.is_applied
    assert check_config(CONFIGS[name], backend.read_inventory()) == ()
    async with running_engine(backend, tmp_path) as engine:
        again = await apply_config(engine, CONFIGS[name])
        assert all(not each.done for each in again.results)
        assert (await apply_config(engine, CONFIGS["all-disabled"])).is_applied
    assert not any(each.mig_enabled for each in backend.read_inventory().devices)


async def test_siblings_in_use_stay_and_count(tmp_path: Path) -> None:
    backend = simulate("h100:1")
    (device,) = uuids(backend)
    async with running_engine(backend, tmp_path) as engine:
        (held,) = await engine.ensure("pod", [request(device, "1g.10gb@3")])
        outcome = await apply_config(engine, CONFIGS["all-1g.10gb"])
        assert outcome.is_applied
        assert held in backend.read_inventory().devices[0].instances
        assert len(slots(backend, device)) == 7


async def test_config_without_what_is_in_use_fails_for_that_device_alone(tmp_path: Path) -> None:
    backend = simulate("h100:2")
    one, two = uuids(backend)
    async with running_engine(backend, tmp_path) as engine:
        await engine.ensure("ns/pod", [request(one, "3g.40gb@4")])
        outcome = await apply_config(engine, CONFIGS["all-1g.10gb"])
        assert outcome.problems == ("device 0: in use, and not in the config: 3g.40gb@4 of ns/pod",)
        assert slots(backend, one) == ["3g.40gb@4"]
        assert len(slots(backend, two)) == 7


async def test_config_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    backend = simulate("h100:1")
    (device,) = uuids(backend)
    async with running_engine(backend, tmp_path) as engine:
        await apply_config(engine, CONFIGS["all-2g.20gb"])
        outcome = await apply_config(engine, (ConfigRule(True, (("4g.40gb", 2),)),))
        assert not outcome.is_applied
        assert "InsufficientCapacity" in outcome.problems[0]
        assert slots(backend, device) == ["2g.20gb@0", "2g.20gb@2", "2g.20gb@4"]


async def test_export_is_read_and_applied_again(tmp_path: Path) -> None:
    backend = simulate("h100:3")
    one, _, three = uuids(backend)
    async with running_engine(backend, tmp_path) as engine:
        await engine.ensure("a", [request(one, "1g.10gb@0"), request(one, "3g.40gb@4")])
        await engine.ensure("b", [request(three, "7g.80gb@0")])
    text = format_config_file(export_config(backend.read_inventory()))
    rules = parse_config_file(text)["current"]
    assert [(each.mig_enabled, each.devices) for each in rules] == [
        (True, (0,)),
        (False, (1,)),
        (True, (2,)),
    ]
    assert check_config(rules, backend.read_inventory()) == ()
    other = simulate("h100:3")
    async with running_engine(other, tmp_path / "other") as engine:
        assert (await apply_config(engine, rules)).is_applied
    assert check_config(rules, other.read_inventory()) == ()


async def test_dry_run_shows_the_steps(tmp_path: Path) -> None:
    backend = simulate("h100:1")
    async with running_engine(backend, tmp_path) as engine:
        outcome = await apply_config(engine, CONFIGS["all-7g.80gb"], is_dry_run=True)
    assert len(outcome.results[0].planned) == 2
    assert not backend.read_inventory().devices[0].mig_enabled


def test_rules_select_by_filter_and_index() -> None:
    inventory = simulate("mixed").read_inventory()
    filtered, problems = select_rules(CONFIGS["all-1g.10gb"], inventory)
    assert not problems
    # Of two H100 NVL, an A100 with 80 GB, and three without MIG.
    assert filtered.keys() == {inventory.devices[2].uuid}
    _, problems = select_rules((ConfigRule(True, devices=(3, 9)),), inventory)
    assert problems == (
        "devices: there is no device 9",
        f"device 3: {inventory.devices[3].product} does not support MIG",
    )


async def test_label_follows_the_devices(tmp_path: Path) -> None:
    """From pending to success; back to pending after a reboot; failed, and never stuck."""
    backend = simulate("h100:1")
    labels = {CONFIG_LABEL: "all-1g.10gb"}
    decision = decide_config(labels, CONFIGS, backend.read_inventory())
    assert decision.state is ConfigState.PENDING
    assert state_labels(decision) == {STATE_LABEL: "pending"}
    faulty = FaultyBackend(backend)
    async with running_engine(faulty, tmp_path) as engine:
        faulty.inject(Fault("create_instance", GpuErrorKind.NO_PERMISSION))
        outcome = await apply_config(engine, decision.rules)
        failure = "; ".join(outcome.problems)
        decision = decide_config(labels, CONFIGS, engine.inventory, failure)
        assert decision.state is ConfigState.FAILED
        assert "NoPermission" in decision.message
        # The next attempt goes on.
        assert (await apply_config(engine, decision.rules)).is_applied
        decision = decide_config(labels, CONFIGS, engine.inventory, failure)
        assert decision.state is ConfigState.SUCCESS
    backend.reboot()
    decision = decide_config(labels, CONFIGS, backend.read_inventory())
    assert decision.state is ConfigState.PENDING


def test_unknown_config_fails_and_no_label_asks_for_nothing() -> None:
    inventory = simulate().read_inventory()
    unknown = decide_config({CONFIG_LABEL: "al-1g.10gb"}, CONFIGS, inventory)
    assert unknown.state is ConfigState.FAILED
    assert "there is no config 'al-1g.10gb': all-1g.10gb" in unknown.message
    none = decide_config({}, CONFIGS, inventory)
    assert state_labels(none) == {STATE_LABEL: None}
