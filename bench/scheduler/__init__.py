"""Decisions about placement, in memory: no API, no network, one process.

Clusters are of equal nodes with 8 GPUs in racks of 16 and blocks of 16 racks. Each figure is the
best of some runs, each on a fresh cluster: what is kept between decisions has to be made too.
"""

from bench.scheduler.command import scheduler

__all__ = ["scheduler"]
