"""How long a MIG placement decision and a repack plan take."""

import time
from random import Random
from statistics import median, quantiles

from bench.gpu.inputs import Inputs
from bench.gpu.policies import SchedulerPlacement
from bench.gpu.streams import MIXES, h100
from bench.report import Quantity, Row
from kilonova.catalog.mig import Slot
from kilonova.scheduler.core.gpu.rebalancing.plan import RebalanceSettings, plan_rebalance
from kilonova.scheduler.core.gpu.rebalancing.repack_state import FleetGpu, HeldInstance

GPUS_OF_NODE = 8
_REPACKS = 5

DECISION = Quantity("placement decision, node of 8 GPUs, median", "µs", target=50)
DECISION_P99 = Quantity("placement decision, node of 8 GPUs, p99", "µs")
REPACK = Quantity("repack plan, 64 moves at most", "ms", target=100)
FULL_REPACK = Quantity("repack plan, any number of moves", "ms")


def measure(inputs: Inputs) -> list[Row]:
    """The rows of both."""
    decisions = _time_decisions(inputs.decisions)
    fleet = random_fleet(inputs.repack_gpus, seed=1)
    return [
        Row(DECISION, median(decisions)),
        Row(DECISION_P99, quantiles(decisions, n=100)[98]),
        Row(REPACK, _time_repack(fleet, 64)),
        Row(FULL_REPACK, _time_repack(fleet, len(fleet) * 7)),
    ]


def random_fleet(gpus: int, seed: int) -> list[FleetGpu]:
    """GPUs with up to six instances at random places."""
    random = Random(seed)
    geometry = h100()
    parts = [each for each in geometry.profiles if each.slices < 8 and not each.extended]
    fleet: list[FleetGpu] = []
    for number in range(gpus):
        mask = 0
        held: list[HeldInstance] = []
        for _ in range(random.randrange(7)):
            profile = random.choice(parts)
            free = geometry.free_starts(mask, profile.name)
            if free:
                start = random.choice(free)
                mask |= profile.mask_at(start)
                held.append(HeldInstance(Slot(profile.name, start), f"{number}/{len(held)}"))
        fleet.append(FleetGpu(f"GPU-{number}", geometry, tuple(held)))
    return fleet


def _time_decisions(count: int) -> list[float]:
    """Microseconds of decisions in random states of a node, with the demand learnt on the way."""
    random = Random(1)
    policy = SchedulerPlacement(GPUS_OF_NODE)
    states = [[sum(_masks(gpu)) for gpu in random_fleet(GPUS_OF_NODE, seed)] for seed in range(200)]
    names = list(MIXES["equal"])
    for masks in states[:50]:  # the tables are made once
        for name in names:
            policy.place(masks, name)
    times: list[float] = []
    for _ in range(count):
        masks, name = random.choice(states), random.choice(names)
        started = time.perf_counter()
        policy.place(masks, name)
        times.append((time.perf_counter() - started) * 1e6)
    return times


def _masks(gpu: FleetGpu) -> list[int]:
    found: list[int] = []
    for each in gpu.held:
        profile = gpu.geometry.profile(each.slot.profile)
        found.append(0 if profile is None else profile.mask_at(each.slot.start))
    return found


def _time_repack(fleet: list[FleetGpu], moves: int) -> float:
    """Milliseconds of the median of some plans."""
    times: list[float] = []
    settings = RebalanceSettings(max_migrations=moves)
    for _ in range(_REPACKS):
        started = time.perf_counter()
        plan = plan_rebalance(fleet, settings, now=0)
        times.append((time.perf_counter() - started) * 1e3)
        if not plan.migrations:
            raise RuntimeError("nothing was planned")
    return median(times)
