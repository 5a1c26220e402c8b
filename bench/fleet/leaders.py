"""Leaders of fleets in a process of their own, to be killed: `python -m bench.fleet.leaders
LEASE_SECONDS ENDPOINT...`. Prints `leading` when all lead."""

import asyncio
import random
import sys

from kilonova.fleet.store import FLEET_TIMING, EndpointSource, FleetElection, FleetTerm
from kilonova.kube.election import LeaderElectionTiming


def fleet_timing(lease_seconds: int) -> LeaderElectionTiming:
    """The timing of fleets, in proportion for a shorter lease."""
    factor = lease_seconds / FLEET_TIMING.lease_duration
    return LeaderElectionTiming(
        lease_seconds,
        FLEET_TIMING.renew_deadline * factor,
        FLEET_TIMING.retry_period * factor,
        FLEET_TIMING.jitter,
    )


async def lead_all(lease_seconds: int, endpoints: list[str]) -> None:
    """Lead a fleet at each endpoint until the process ends."""
    waiting = len(endpoints)

    async def report(term: FleetTerm) -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            print("leading", flush=True)
        await asyncio.Event().wait()

    async def lead(endpoint: str) -> None:
        # So that the renewals, and with them the kill, fall at different times of their period.
        await asyncio.sleep(random.uniform(0, 2))
        source = EndpointSource(endpoint)
        await FleetElection(source, timing=fleet_timing(lease_seconds)).run(report)

    await asyncio.gather(*(lead(each) for each in endpoints))


if __name__ == "__main__":
    asyncio.run(lead_all(int(sys.argv[1]), sys.argv[2:]))
