"""The MIG engine on simulated devices."""

from pathlib import Path

import pytest

from kilonova.gpu.devices.errors import GpuErrorKind
from kilonova.gpu.devices.fault_injection import Fault, FaultyBackend
from kilonova.gpu.devices.simulated import ProcessLoad, SimulatedBackend
from kilonova.gpu.mig.engine import MigEngine, RequestRefused
from kilonova.gpu.mig.execution.step_runner import StepFailed
from kilonova.gpu.mig.node_lock import EngineIsRunning
from kilonova.gpu.mig.plan.planner import RefusalReason, Target
from kilonova.gpu.mig.reservations import ReservedDevices
from kilonova.gpu.mig.states import ChangeReason, MigState, StateChange
from tests.gpu.devices.machines import first_uuid, simulate
from tests.gpu.mig.engines import Waits, request, running_engine, slots


def sliced(*placements: str) -> tuple[SimulatedBackend, str]:
    backend = simulate()
    device = first_uuid(backend)
    backend.set_mig_mode(device, True)
    for each in placements:
        profile, _, start = each.partition("@")
        backend.create_instance(device, profile, int(start))
    return backend, device


async def test_instances_are_made_once_and_returned_in_order(tmp_path: Path) -> None:
    backend = FaultyBackend(simulate())
    device = first_uuid(backend.backend)  # pyright: ignore[reportArgumentType]
    wanted = [request(device, "2g.20gb@4"), request(device, "1g.10gb@0")]
    async with running_engine(backend, tmp_path) as engine:
        first = await engine.ensure("pod", wanted)
        again = await engine.ensure("pod", wanted)
    assert [each.profile for each in first] == ["2g.20gb", "1g.10gb"]
    assert again == first
    changes = [name for name, _ in backend.calls if not name.startswith("read")]
    assert changes == ["set_mig_mode", "create_instance", "create_instance"]


async def test_lifecycle_is_reported_state_by_state(tmp_path: Path) -> None:
    backend = simulate()
    device = first_uuid(backend)
    changes: list[StateChange] = []
    async with running_engine(backend, tmp_path, changes=changes) as engine:
        (instance,) = await engine.ensure("pod", [request(device, "1g.10gb@0")])
        backend.set_load(instance.uuid, ProcessLoad(7, 0.5))
        engine.observe(backend.read_telemetry())
        backend.set_load(instance.uuid)
        engine.observe(backend.read_telemetry())
        await engine.release("pod")
        await engine.apply({device: Target(mig_enabled=False)})
    assert [each.after for each in changes] == [
        MigState.DISCOVERED,
        MigState.MIG_ENABLED,
        MigState.PARTITION_CREATED,
        MigState.AVAILABLE,
        MigState.ALLOCATED,
        MigState.IN_USE,
        MigState.ALLOCATED,
        MigState.AVAILABLE,
        MigState.DESTROYED,
        MigState.DISCOVERED,
    ]
    released = changes[-3]
    assert (released.reason, released.slot) == (
        ChangeReason.RELEASED,
        request(device, "1g.10gb@0").slot,
    )


async def test_slot_of_another_holder_is_refused(tmp_path: Path) -> None:
    backend, device = sliced()
    async with running_engine(backend, tmp_path) as engine:
        await engine.ensure("a", [request(device, "3g.40gb@4")])
        with pytest.raises(RequestRefused, match=r"belong to 3g\.40gb@4 of a") as refused:
            await engine.ensure("b", [request(device, "1g.10gb@0"), request(device, "1g.10gb@5")])
        assert [each.reason for each in refused.value.refusals] == [RefusalReason.SLICES_IN_USE]
        # Nothing of b's was reserved or made.
        await engine.ensure("c", [request(device, "4g.40gb@0")])
    assert slots(backend, device) == ["4g.40gb@0", "3g.40gb@4"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("5g.50gb@0", RefusalReason.UNKNOWN_PROFILE),
        ("2g.20gb@3", RefusalReason.INVALID_START),
    ],
)
async def test_impossible_slot_is_refused(tmp_path: Path, text: str, reason: RefusalReason) -> None:
    backend, device = sliced()
    async with running_engine(backend, tmp_path) as engine:
        with pytest.raises(RequestRefused) as refused:
            await engine.ensure("pod", [request(device, text)])
    assert refused.value.refusals[0].reason is reason


async def test_unused_instances_give_way_and_used_ones_do_not(tmp_path: Path) -> None:
    backend, device = sliced("1g.10gb@0", "1g.10gb@1", "1g.10gb@4")
    used = backend.read_inventory().devices[0].instances[2]
    backend.set_load(used.uuid, ProcessLoad(9))
    async with running_engine(backend, tmp_path) as engine:
        # Its process belongs to no pod: it is seen before anything is destroyed.
        with pytest.raises(RequestRefused, match=r"occupied: 1g\.10gb@4 is in use"):
            await engine.ensure("other", [request(device, "3g.40gb@4")])
        assert not any(each.holder for each in engine.instances)
        await engine.ensure("pod", [request(device, "2g.20gb@0")])
    assert slots(backend, device) == ["2g.20gb@0", "1g.10gb@4"]


async def test_released_instance_stays_as_stock_for_the_next_pod(tmp_path: Path) -> None:
    backend, device = sliced()
    async with running_engine(backend, tmp_path) as engine:
        (first,) = await engine.ensure("a", [request(device, "1g.10gb@2")])
        await engine.release("a")
        (second,) = await engine.ensure("b", [request(device, "1g.10gb@2")])
        assert [each.holder for each in engine.instances] == ["b"]
    assert first == second


async def test_whole_device_and_slices_exclude_each_other(tmp_path: Path) -> None:
    backend = simulate("h100:2")
    one, other = (each.uuid for each in backend.read_inventory().devices)
    async with running_engine(backend, tmp_path) as engine:
        await engine.use_devices("whole", [one])
        with pytest.raises(RequestRefused, match="while nothing uses the device"):
            await engine.ensure("pod", [request(one, "1g.10gb@0")])
        await engine.ensure("pod", [request(other, "1g.10gb@0")])
        with pytest.raises(RequestRefused, match="it has no whole GPU"):
            await engine.use_devices("later", [other])
        await engine.release("whole")
        await engine.ensure("pod2", [request(one, "1g.10gb@0")])


async def test_nothing_is_destroyed_before_the_holders_are_known(tmp_path: Path) -> None:
    backend, device = sliced("1g.10gb@0")
    async with running_engine(backend, tmp_path, holders=None) as engine:
        with pytest.raises(RequestRefused, match=r"1g\.10gb@0 is in use"):
            await engine.ensure("pod", [request(device, "2g.20gb@0")])
        await engine.ensure("pod2", [request(device, "2g.20gb@2")])
        await engine.reconcile({"pod2": ReservedDevices((request(device, "2g.20gb@2"),))})
        await engine.ensure("pod", [request(device, "2g.20gb@0")])
    assert slots(backend, device) == ["2g.20gb@0", "2g.20gb@2"]


async def test_reconcile_follows_the_pods(tmp_path: Path) -> None:
    backend, device = sliced()
    async with running_engine(backend, tmp_path) as engine:
        await engine.ensure("gone", [request(device, "1g.10gb@0")])
        await engine.ensure("moved", [request(device, "1g.10gb@1")])
        refusals = await engine.reconcile(
            {
                "moved": ReservedDevices((request(device, "1g.10gb@2"),)),
                "new": ReservedDevices((request(device, "3g.40gb@4"),)),
                "wrong": ReservedDevices((request(device, "1g.10gb@5"),)),
            }
        )
        assert [(each.holder, each.reason) for each in refusals] == [
            ("wrong", RefusalReason.SLICES_IN_USE)
        ]
        await engine.restore()
        held = {each.holder: str(each.slot) for each in engine.instances if each.holder}
    assert held == {"moved": "1g.10gb@2", "new": "3g.40gb@4"}


async def test_ampere_is_reset_only_while_idle(tmp_path: Path) -> None:
    backend = simulate("a100-80:1")
    device = first_uuid(backend)
    backend.set_load(device, ProcessLoad(3))
    async with running_engine(backend, tmp_path) as engine:
        with pytest.raises(RequestRefused, match="while nothing uses the device"):
            await engine.ensure("pod", [request(device, "1g.10gb@0")])
        backend.set_load(device)
        engine.observe(backend.read_telemetry())
        await engine.ensure("pod", [request(device, "1g.10gb@0")])
        assert {each.operation for each in engine.statistics()} == {"create", "enable", "reset"}
    assert slots(backend, device) == ["1g.10gb@0"]


async def test_reset_may_be_forbidden(tmp_path: Path) -> None:
    backend = simulate("a100-80:1")
    device = first_uuid(backend)
    async with running_engine(backend, tmp_path, may_reset=False) as engine:
        with pytest.raises(StepFailed, match="pending until a reset"):
            await engine.ensure("pod", [request(device, "1g.10gb@0")])
        backend.reset(device)  # by an administrator
        await engine.refresh()
        await engine.ensure("pod", [request(device, "1g.10gb@0")])


async def test_instances_are_made_again_after_a_reboot(tmp_path: Path) -> None:
    backend, device = sliced()
    wanted = [request(device, "1g.10gb@0"), request(device, "3g.40gb@4")]
    async with running_engine(backend, tmp_path) as engine:
        await engine.ensure("pod", wanted)
    backend.reboot()
    engine = MigEngine(backend, tmp_path)
    restored = await engine.open()
    assert restored.missing == tuple(wanted)
    await engine.reconcile({"pod": ReservedDevices(tuple(wanted))})
    await engine.restore()
    engine.close()
    assert slots(backend, device) == ["1g.10gb@0", "3g.40gb@4"]


async def test_instances_of_others_are_adopted(tmp_path: Path) -> None:
    backend, device = sliced("1g.10gb@3")
    changes: list[StateChange] = []
    async with running_engine(backend, tmp_path, changes=changes) as engine:
        assert [(each.state, str(each.slot)) for each in engine.instances] == [
            (MigState.AVAILABLE, "1g.10gb@3")
        ]
        (instance,) = await engine.ensure("pod", [request(device, "1g.10gb@3")])
        # One that somebody else destroys behind its back is noticed.
        backend.destroy_instance(device, instance.uuid)
        await engine.refresh()
        assert not engine.instances
        assert changes[-1].reason is ChangeReason.LOST
        await engine.ensure("pod", [request(device, "1g.10gb@3")])
    assert slots(backend, device) == ["1g.10gb@3"]


async def test_partial_instance_is_destroyed_and_made_whole(tmp_path: Path) -> None:
    backend, device = sliced()
    backend.leave_partial_instance(device, "2g.20gb", 0)
    async with running_engine(backend, tmp_path) as engine:
        assert [each.state for each in engine.instances] == [MigState.PARTITION_CREATED]
        (instance,) = await engine.ensure("pod", [request(device, "2g.20gb@0")])
        assert not instance.is_partial
        assert [each.state for each in engine.instances] == [MigState.ALLOCATED]


async def test_second_engine_changes_nothing(tmp_path: Path) -> None:
    backend, _ = sliced()
    watched = FaultyBackend(backend)
    async with running_engine(backend, tmp_path):
        journal = (tmp_path / "mig.journal").read_bytes()
        second = MigEngine(watched, tmp_path)
        with pytest.raises(EngineIsRunning, match="nothing was changed"):
            await second.open()
        assert watched.calls == []
        assert (tmp_path / "mig.journal").read_bytes() == journal


async def test_dry_run_and_whole_targets(tmp_path: Path) -> None:
    backend, device = sliced("1g.10gb@0")
    async with running_engine(backend, tmp_path) as engine:
        (result,) = await engine.apply({device: Target(stock=("7g.80gb",))}, is_dry_run=True)
        assert len(result.planned) == 2
        (result,) = await engine.apply(
            {device: Target(stock=("4g.40gb", "4g.40gb"))}, is_whole=True
        )
        assert "InsufficientCapacity" in result.refusals[0]
        assert slots(backend, device) == ["1g.10gb@0"]
        (result,) = await engine.apply({device: Target(stock=("4g.40gb", "4g.40gb"))})
        assert slots(backend, device) == ["4g.40gb@0"]
        assert result.refusals


async def test_mode_is_not_disabled_under_reservations(tmp_path: Path) -> None:
    backend, device = sliced()
    async with running_engine(backend, tmp_path) as engine:
        await engine.ensure("pod", [request(device, "1g.10gb@0")])
        (result,) = await engine.apply({device: Target(mig_enabled=False)})
        assert "1g.10gb@0 are reserved" in result.refusals[0]
    assert slots(backend, device) == ["1g.10gb@0"]


async def test_retry_waits_longer_each_time_and_statistics_count(tmp_path: Path) -> None:
    backend = FaultyBackend(sliced()[0])
    device = backend.read_inventory().devices[0].uuid
    backend.inject(Fault("create_instance", GpuErrorKind.UNKNOWN, times=2))
    waits = Waits()
    async with running_engine(backend, tmp_path, waits=waits) as engine:
        await engine.ensure("pod", [request(device, "1g.10gb@0")])
        (figures,) = engine.statistics()
    assert waits.seconds == [0.5, 1.0]
    assert (figures.operation, figures.succeeded, figures.failed) == ("create", 1, {"Unknown": 2})
    assert figures.longest >= figures.p95 >= figures.p50 > 0


async def test_processes_that_have_ended_protect_nothing(tmp_path: Path) -> None:
    backend, device = sliced("1g.10gb@0", "1g.10gb@4")
    first, second = backend.read_inventory().devices[0].instances
    async with running_engine(backend, tmp_path) as engine:
        await engine.ensure("pod", [request(device, "1g.10gb@0")])
        backend.set_load(first.uuid, ProcessLoad(7))
        backend.set_load(second.uuid, ProcessLoad(8))
        engine.observe(backend.read_telemetry())
        backend.set_load(first.uuid)
        backend.set_load(second.uuid)
        # That of a pod ends with it; others are looked for again when it matters.
        await engine.release("pod")
        assert len(engine.plan(device, Target(is_exact=True)).steps) == 1
        await engine.ensure("other", [request(device, "3g.40gb@4")])
        await engine.apply({device: Target(is_exact=True)})
    assert slots(backend, device) == ["3g.40gb@4"]
