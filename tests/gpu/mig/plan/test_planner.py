"""Plans for one device: what is kept, destroyed and created, and what is refused."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kilonova.catalog.mig import Slot, known_geometries
from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.devices.model import Device, DeviceHealth, HealthState
from kilonova.gpu.devices.simulated import SimulatedBackend
from kilonova.gpu.mig.execution.step_runner import call_backend
from kilonova.gpu.mig.plan.planner import PinnedInstance, RefusalReason, Target, plan_device
from kilonova.gpu.mig.plan.steps import CreateInstance, DestroyInstance, describe_step
from tests.gpu.devices.machines import first_uuid, simulate
from tests.harness.campaigns import limit_examples


def sliced(*placements: str, persona: str = "h100:1") -> tuple[SimulatedBackend, Device]:
    """A device with these instances: `1g.10gb@3`."""
    backend = simulate(persona)
    uuid = first_uuid(backend)
    backend.set_mig_mode(uuid, True)
    for each in placements:
        profile, _, start = each.partition("@")
        backend.create_instance(uuid, profile, int(start))
    return backend, backend.read_inventory().devices[0]


def pin(*placements: str) -> tuple[PinnedInstance, ...]:
    parts = (each.partition("@") for each in placements)
    return tuple(PinnedInstance(Slot(profile, int(start)), "pod") for profile, _, start in parts)


def described(device: Device, target: Target, protected: Sequence[str] = ()) -> list[str]:
    """The steps in words; `protected` are slots."""
    uuids = {each.uuid for each in device.instances if f"{each.profile}@{each.start}" in protected}
    plan = plan_device(device, target, uuids)
    assert not plan.refusals
    words = (describe_step(step).removesuffix(" for pod") for step in plan.steps)
    return [each.removesuffix(f" on {device.uuid}") for each in words]


@pytest.mark.parametrize(
    ("existing", "protected", "target", "steps"),
    [
        ([], [], Target(pin("3g.40gb@4")), ["create 3g.40gb@4"]),
        (["3g.40gb@4"], [], Target(pin("3g.40gb@4")), []),
        (["1g.10gb@0"], [], Target(pin("3g.40gb@4")), ["create 3g.40gb@4"]),
        (
            ["1g.10gb@0", "1g.10gb@4", "1g.10gb@6"],
            ["1g.10gb@0"],
            Target(pin("3g.40gb@4")),
            ["destroy 1g.10gb@4", "destroy 1g.10gb@6", "create 3g.40gb@4"],
        ),
        # Stock: what is there is kept, and as little as possible is destroyed.
        (["1g.10gb@6"], [], Target(stock=("1g.10gb",)), []),
        (["1g.10gb@6"], [], Target(stock=("1g.10gb", "3g.40gb")), ["create 3g.40gb@0"]),
        (
            ["1g.10gb@0", "1g.10gb@4"],
            [],
            Target(stock=("3g.40gb", "1g.10gb")),
            ["destroy 1g.10gb@4", "create 3g.40gb@4"],
        ),
        (
            ["1g.10gb@0", "2g.20gb@2"],
            [],
            Target(is_exact=True),
            [
                "destroy 1g.10gb@0",
                "destroy 2g.20gb@2",
            ],
        ),
        (
            ["1g.10gb@0", "2g.20gb@2"],
            ["2g.20gb@2"],
            Target(stock=("1g.10gb", "1g.10gb"), is_exact=True),
            ["create 1g.10gb@1"],
        ),
        (
            ["1g.10gb@0"],
            [],
            Target(mig_enabled=False),
            ["destroy 1g.10gb@0", "disable MIG mode"],
        ),
    ],
)
def test_plan_is_incremental(
    existing: list[str], protected: list[str], target: Target, steps: list[str]
) -> None:
    _, device = sliced(*existing)
    assert described(device, target, protected) == steps


def test_mode_is_enabled_first() -> None:
    device = simulate().read_inventory().devices[0]
    steps = described(device, Target(pin("1g.10gb@0")))
    assert steps == ["enable MIG mode", "create 1g.10gb@0"]


def test_pending_mode_is_reset_into() -> None:
    device = replace(simulate("a100-80:1").read_inventory().devices[0], mig_pending=True)
    steps = described(device, Target())
    assert [each.removesuffix(f" {device.uuid}") for each in steps] == ["reset"]


def test_partial_instance_is_cleaned_up_and_never_counted() -> None:
    backend, device = sliced()
    backend.leave_partial_instance(device.uuid, "1g.10gb", 0)
    device = backend.read_inventory().devices[0]
    assert described(device, Target(pin("1g.10gb@0"))) == ["destroy 1g.10gb@0", "create 1g.10gb@0"]
    assert described(device, Target()) == ["destroy 1g.10gb@0"]


@pytest.mark.parametrize(
    ("target", "reason", "message"),
    [
        (Target(pin("9g.90gb@0")), RefusalReason.UNKNOWN_PROFILE, "is no profile of H100-80GB: 1g"),
        (Target(pin("2g.20gb@1")), RefusalReason.INVALID_START, "2g.20gb starts at 0, 2, 4"),
        (Target(pin("4g.40gb@0")), RefusalReason.SLICES_IN_USE, "3g.40gb@0 is in use"),
        (Target(pin("1g.10gb@5", "2g.20gb@4")), RefusalReason.SLICES_IN_USE, "another assignment"),
        (Target(stock=("4g.40gb",)), RefusalReason.INSUFFICIENT_CAPACITY, "for 4g.40gb beside 3g"),
        (Target(stock=("bad",)), RefusalReason.UNKNOWN_PROFILE, "'bad' is no profile"),
        (Target(mig_enabled=False), RefusalReason.SLICES_IN_USE, "while 3g.40gb@0 is in use"),
    ],
)
def test_refusal_names_the_reason(target: Target, reason: RefusalReason, message: str) -> None:
    _, device = sliced("3g.40gb@0")
    plan = plan_device(device, target, {device.instances[0].uuid})
    assert [each.reason for each in plan.refusals] == [reason]
    assert message in plan.refusals[0].message
    assert not any(isinstance(step, DestroyInstance) for step in plan.steps)


def test_stock_that_does_not_fit_is_left_out_from_the_least_important() -> None:
    _, device = sliced()
    plan = plan_device(device, Target(stock=("4g.40gb", "4g.40gb", "3g.40gb")))
    assert [each.reason for each in plan.refusals] == [RefusalReason.INSUFFICIENT_CAPACITY]
    created = [step.slot.profile for step in plan.steps if isinstance(step, CreateInstance)]
    assert sorted(created) == ["3g.40gb", "4g.40gb"]


def test_device_in_use_is_not_sliced() -> None:
    device = simulate().read_inventory().devices[0]
    plan = plan_device(device, Target(pin("1g.10gb@0")), is_in_use=True)
    assert not plan.steps
    assert plan.refusals[0].reason is RefusalReason.DEVICE_IN_USE


def test_device_without_mig_and_unhealthy_device_are_refused() -> None:
    plain = simulate("l40s:1").read_inventory().devices[0]
    plan = plan_device(plain, Target(pin("1g.10gb@0")))
    assert plan.refusals[0].reason is RefusalReason.MIG_NOT_SUPPORTED
    assert "L40S" in plan.refusals[0].message
    _, device = sliced()
    broken = replace(device, health=DeviceHealth(HealthState.UNHEALTHY, ("XID 79: lost",)))
    plan = plan_device(broken, Target(pin("1g.10gb@0")))
    assert plan.refusals[0].reason is RefusalReason.DEVICE_UNHEALTHY
    assert "XID 79" in plan.refusals[0].message


PERSONAS = ["h100:1", "h200:1", "b200:1"]


@given(data=st.data())
@settings(max_examples=limit_examples(200), deadline=None)
def test_steps_are_legal_and_leave_the_protected_alone(data: st.DataObject) -> None:
    """Every step is accepted by the device, and a plan from any state in between goes on."""
    backend, device = sliced(persona=data.draw(st.sampled_from(PERSONAS)))
    geometry = device.geometry
    assert geometry is not None
    assert geometry in known_geometries()
    possible = [(profile.name, start) for profile in geometry.profiles for start in profile.starts]
    for profile, start in data.draw(st.lists(st.sampled_from(possible), max_size=8)):
        try:
            backend.create_instance(device.uuid, profile, start)
        except GpuError:
            continue
    device = backend.read_inventory().devices[0]
    protected = {each.uuid for each in device.instances if data.draw(st.booleans())}
    target = Target(
        tuple(
            PinnedInstance(Slot(profile, start), f"pod-{number}")
            for number, (profile, start) in enumerate(
                data.draw(st.lists(st.sampled_from(possible), max_size=3))
            )
        ),
        tuple(data.draw(st.lists(st.sampled_from([name for name, _ in possible]), max_size=4))),
        is_exact=data.draw(st.booleans()),
    )
    plan = plan_device(device, target, protected)
    steps = data.draw(st.integers(0, len(plan.steps)))
    for step in plan.steps[:steps]:
        call_backend(backend, step)
    rest = plan_device(backend.read_inventory().devices[0], target, protected)
    for step in rest.steps:
        call_backend(backend, step)
    after = backend.read_inventory().devices[0]
    assert protected <= {each.uuid for each in after.instances}
    # What was not refused is there.
    there = {Slot(each.profile, each.start) for each in after.instances}
    refused = Counter(each.holder for each in plan.refusals)
    for each in target.pinned:
        assert each.slot in there or refused[each.holder]
    last = plan_device(after, target, protected)
    assert not last.steps
