"""How much capacity for MIG instances a node loses by one more of them, beyond what it occupies.

The remaining value of a device for the demand (`core/gpu/mig.py`) is what later instances could
still use. A node whose best device loses least of it is best; a device without instances loses all
its value for pods that need it whole, so it is used last.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU, GpuLayout
from kilonova.scheduler.core.gpu.mig import ProfileDemand, placement_loss
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.requests import GpuRequest
from kilonova.scheduler.core.model.snapshot import Snapshot

Floats = NDArray[np.float64]

_IDLE_DEVICE_PENALTY = 200.0
"""Milli by which a device without instances is worse than one with some."""
_NO_DEVICE = float(MILLI_PER_GPU)
"""Lost milli of a node on which a device plugin selects the instance."""


def wasted_instance_milli(
    snapshot: Snapshot, request: GpuRequest, rows: Rows, demand: ProfileDemand
) -> Floats:
    """Milli that one instance of the requested profile wastes on each row: what the device loses
    that loses least, less what an instance occupies."""
    waste = np.zeros(len(rows))
    layouts = snapshot.layouts[rows]
    for number in np.unique(layouts):
        layout = snapshot.layout_of[int(number)]
        indices, tables, occupied = _loss_tables(layout, request, demand)
        if not len(indices):
            continue
        here = np.flatnonzero(layouts == number)
        chosen = rows[here][:, None], indices[None, :]
        masks, free = snapshot.gpu_mask[chosen], snapshot.gpu_free[chosen]
        lost = tables[np.arange(len(indices)), masks] * MILLI_PER_GPU
        lost = np.where(masks == 0, lost + _IDLE_DEVICE_PENALTY, lost)
        lost = np.where((masks != 0) | (free == MILLI_PER_GPU), lost, np.inf).min(axis=1)
        waste[here] = np.where(np.isfinite(lost), lost - occupied, _NO_DEVICE)
    return waste


@lru_cache(maxsize=1024)
def _loss_tables(
    layout: GpuLayout, request: GpuRequest, demand: ProfileDemand
) -> tuple[NDArray[np.intp], Floats, float]:
    """The eligible devices, the loss of each by its mask, and the milli that an instance occupies
    at least."""
    eligible = layout.eligible_devices(request)
    devices = [
        (gpu.index, gpu.mig, share)
        for gpu in layout.gpus
        if eligible >> gpu.index & 1
        and gpu.mig is not None
        and (share := gpu.mig.device_share(request.profile)) is not None
    ]
    tables = [placement_loss(geometry, request.profile, demand) for _, geometry, _ in devices]
    occupied = min((share for *_, share in devices), default=0.0) * MILLI_PER_GPU
    indices = np.array([index for index, *_ in devices], np.intp)
    return indices, np.array(tables), occupied
