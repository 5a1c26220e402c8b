"""The MIG engine and MPS sharing on a real GPU, beside PyTorch processes that compute all along.

`python -m tools.hardware gpu-engine [--out FILE]`: an instance for a holder; a rebalance around it
while it is in use; a second engine and a crashed one; then two processes with MPS shares.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kilonova.catalog.mig import Slot
from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.devices.model import Device
from kilonova.gpu.mig.engine import MigEngine
from kilonova.gpu.mig.execution.plan_runner import RequestRefused
from kilonova.gpu.mig.node_lock import EngineIsRunning
from kilonova.gpu.mig.plan.planner import Target
from kilonova.gpu.mig.plan.steps import describe_step
from kilonova.gpu.mig.reservations import ReservedDevices, SlotRequest
from kilonova.gpu.sharing.mps.control import MpsControlProgram
from kilonova.gpu.sharing.mps.sharing import DeviceShare, MpsSharing, ShareRefused
from kilonova.gpu.sharing.shares import MpsCapacity, MpsShare
from tools.hardware.restoration import is_untouched, restore_device
from tools.hardware.rig import Rig, open_rig
from tools.hardware.transcript import Transcript
from tools.hardware.workers import Worker, WorkerFailed, Workers, open_workers

_SMALL_SHARE, _LARGE_SHARE = MpsShare(25, 20_000), MpsShare(50, 40_000)
_TOO_MUCH_MIB = 30_000
"""More than the smaller share, and less than the larger one."""


def main(arguments: Sequence[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="python -m tools.hardware gpu-engine")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the transcript here, too")
    options = parser.parse_args(arguments)
    transcript = Transcript(options.out)
    transcript.write("# MIG engine and MPS on hardware", "")
    transcript.write("`python -m tools.hardware gpu-engine`", "")
    with open_rig() as rig, open_workers() as workers:
        devices = [each for each in rig.backend.read_inventory().devices if each.geometry]
        free = [each for each in devices if is_untouched(each)]
        if not free:
            transcript.check("there is a GPU with MIG support that nothing uses", False)
            return transcript.summary()
        try:
            with tempfile.TemporaryDirectory() as folder:
                asyncio.run(_run_all(rig, transcript, workers, free[0], Path(folder)))
        except (GpuError, WorkerFailed) as error:
            transcript.check("nothing fails unexpectedly", False, str(error))
        finally:
            workers.stop()
            transcript.heading("Restored")
            restore_device(rig, transcript, free[0].uuid)
    return transcript.summary()


async def _run_all(
    rig: Rig, transcript: Transcript, workers: Workers, device: Device, folder: Path
) -> None:
    await _drive_engine(rig, transcript, workers, device, folder / "mig")
    workers.stop()
    restore_device(rig, transcript, device.uuid)
    await _drive_mps(rig, transcript, workers, device, folder / "mps")


async def _drive_engine(
    rig: Rig, transcript: Transcript, workers: Workers, device: Device, folder: Path
) -> None:
    """Rebalance around an instance in use; be restarted; refuse what would disturb it."""
    transcript.heading("A rebalance beside an instance in use")
    uuid = device.uuid
    engine = await _open_engine(rig, transcript, folder)
    held = SlotRequest(uuid, Slot(_profile_of(device, 2), 0))
    with transcript.timed(f"MIG mode enabled and {held.slot} created for pod-a"):
        (instance,) = await engine.ensure("pod-a", [held])
    worker = workers.start({"CUDA_VISIBLE_DEVICES": instance.uuid})
    transcript.write(f"- PyTorch sees {worker.seen['name']}, {worker.seen['sms']} SMs")
    before = _check_progress(transcript, worker, 0, "the process computes")
    small, large = _profile_of(device, 1), _profile_of(device, 3)
    for what, target in (
        ("stock of three small instances", Target(stock=(small,) * 3)),
        ("rebalance: a large instance in their place", Target(stock=(large,), is_exact=True)),
    ):
        with transcript.timed(what):
            (result,) = await engine.apply({uuid: target})
        transcript.write(*(f"  - {describe_step(step)}" for step in result.done))
        transcript.check(f"{what} is done", not result.failure, result.failure)
        before = _check_progress(transcript, worker, before, "the process still computes")
    profiles = sorted(str(each.slot) for each in engine.instances)
    transcript.check("the instances are as planned", len(profiles) == 2, ", ".join(profiles))
    await _check_refusals(rig, transcript, engine, uuid, folder)
    transcript.heading("A crash of the engine")
    engine.close()
    engine = await _open_engine(rig, transcript, folder, {"pod-a": ReservedDevices((held,))})
    adopted = {each.uuid: each.holder for each in engine.instances}
    transcript.check(
        "the next engine adopts the instance of pod-a", adopted.get(instance.uuid) == "pod-a"
    )
    _check_progress(transcript, worker, before, "the process still computes")
    workers.stop()
    await engine.release("pod-a")
    (result,) = await engine.apply({uuid: Target(is_exact=True, mig_enabled=False)})
    transcript.write(*(f"  - {describe_step(step)}" for step in result.done))
    transcript.check("all is taken back", not result.failure, result.failure)
    transcript.table(
        ("operation", "number", "mean ms"),
        [
            (each.operation, each.succeeded, f"{each.mean * 1000:.0f}")
            for each in engine.statistics()
        ],
    )
    engine.close()


async def _check_refusals(
    rig: Rig, transcript: Transcript, engine: MigEngine, uuid: str, folder: Path
) -> None:
    taken = next(each.slot for each in engine.instances if each.holder)
    try:
        await engine.ensure("pod-b", [SlotRequest(uuid, taken)])
        transcript.check("the slot of pod-a is refused to pod-b", False)
    except RequestRefused as error:
        transcript.check("the slot of pod-a is refused to pod-b", True, str(error))
    second = MigEngine(rig.backend, folder)
    try:
        await second.open()
        transcript.check("a second engine is refused", False)
    except EngineIsRunning as error:
        transcript.check("a second engine is refused", True, str(error))


async def _drive_mps(
    rig: Rig, transcript: Transcript, workers: Workers, device: Device, folder: Path
) -> None:
    """Two processes see the limits of their shares."""
    transcript.heading("MPS: two shares")
    capacities = {device.uuid: MpsCapacity(device.memory_mib)}
    sharing = MpsSharing(folder, MpsControlProgram(), rig.backend, capacities)
    try:
        seen: dict[str, Worker] = {}
        for holder, share in (("pod-a", _SMALL_SHARE), ("pod-b", _LARGE_SHARE)):
            with transcript.timed(f"share of {holder} prepared"):
                settings = await sharing.prepare(holder, DeviceShare(device.uuid, share))
            seen[holder] = workers.start(settings.environment, _TOO_MUCH_MIB)
        transcript.table(
            ("pod", "threads", "memory MiB", "SMs seen", "MiB seen", f"{_TOO_MUCH_MIB} MiB"),
            [
                (
                    holder,
                    f"{share.threads_percent} %",
                    share.memory_mib,
                    seen[holder].seen["sms"],
                    seen[holder].seen["total_mib"],
                    "refused" if seen[holder].seen["refused"] else "given",
                )
                for holder, share in (("pod-a", _SMALL_SHARE), ("pod-b", _LARGE_SHARE))
            ],
        )
        sms = device.sms or 0
        for holder, share in (("pod-a", _SMALL_SHARE), ("pod-b", _LARGE_SHARE)):
            expected = sms * share.threads_percent / 100
            transcript.check(
                f"{holder} sees its part of the SMs",
                abs(int(str(seen[holder].seen["sms"])) - expected) <= sms / 16,
            )
        transcript.check("memory beyond the share is refused", bool(seen["pod-a"].seen["refused"]))
        transcript.check("memory within it is given", not seen["pod-b"].seen["refused"])
        counts = {holder: _rate(worker) for holder, worker in seen.items()}
        transcript.write(f"- products in a second, side by side: {counts}")
        clients = await sharing.clients(device.uuid)
        transcript.check("both are clients of the server", len(clients) == 2, str(clients))
        try:
            await sharing.prepare("pod-c", DeviceShare(device.uuid, _LARGE_SHARE))
            transcript.check("a share beyond the sum is refused", False)
        except ShareRefused as error:
            transcript.check("a share beyond the sum is refused", True, str(error))
        killed = await sharing.kill_clients(device.uuid, {seen["pod-a"].pid})
        transcript.check(
            "one client is ended", seen["pod-a"].wait_end(30) is not None, f"killed {killed}"
        )
        _check_progress(transcript, seen["pod-b"], 0, "the other one still computes")
    finally:
        workers.stop()
        for holder in ("pod-a", "pod-b", "pod-c"):
            await sharing.release(holder)


async def _open_engine(
    rig: Rig,
    transcript: Transcript,
    folder: Path,
    holders: dict[str, ReservedDevices] | None = None,
    report: Callable[[object], None] = lambda change: None,
) -> MigEngine:
    engine = MigEngine(rig.backend, folder, report=report)
    restored = await engine.open()
    refusals = await engine.reconcile(holders or {})
    transcript.check("the engine opens", not refusals, f"{len(restored.adopted)} instances exist")
    return engine


def _profile_of(device: Device, compute: int) -> str:
    """The plain profile with so many compute slices."""
    assert device.geometry is not None
    found = [each for each in device.geometry.profiles if each.compute == compute]
    return min(found, key=lambda each: (each.slices, each.extended)).name


def _check_progress(transcript: Transcript, worker: Worker, before: int, what: str) -> int:
    """Whether the process has computed since, and goes on."""
    first = worker.next_count()
    count = worker.next_count()
    transcript.check(what, before < first < count, f"{count} products")
    return count


def _rate(worker: Worker) -> int:
    first = worker.next_count()
    return worker.next_count() - first
