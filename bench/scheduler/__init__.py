"""Placement decisions in memory: no API, no network, one process.

Clusters consist of equal nodes with 8 GPUs in racks of 16 and blocks of 16 racks. Each figure is
the best of several runs, each on a new cluster, so that caches have to be built as well.
"""
