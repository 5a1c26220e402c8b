"""The most requests of a stream that one GPU can serve, with the stream known in advance.

Exact, as an integer program: each request may have one of the starts of its profile, or none, and
no slice has two instances at any arrival.
"""

from collections.abc import Sequence
from typing import Any

import highspy

from bench.gpu.streams import InstanceRequest, h100
from kilonova.catalog.mig import MEMORY_SLICES


def count_most_served(stream: Sequence[InstanceRequest]) -> int:
    """The number of requests that are served at best."""
    profiles = {each.name: each for each in h100().profiles}
    solver: Any = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    choices: list[tuple[InstanceRequest, int, Any]] = []
    for request in stream:
        profile = profiles[request.profile]
        own = [
            (request, profile.mask_at(start), solver.addBinary(obj=-1.0))
            for start in profile.starts
        ]
        solver.addConstr(sum(variable for *_, variable in own) <= 1)
        choices += own
    for request in stream:
        now = request.arrival
        present = [each for each in choices if each[0].arrival <= now < each[0].departure]
        for index in range(MEMORY_SLICES):
            on_slice = [variable for _, mask, variable in present if mask >> index & 1]
            if len(on_slice) > 1:
                solver.addConstr(sum(on_slice) <= 1)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(f"no optimum was found: {solver.getModelStatus()}")
    return round(-solver.getInfo().objective_function_value)
