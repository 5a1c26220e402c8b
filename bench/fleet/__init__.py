"""Instances of models in one cluster and in many: what their users wait for.

A module has one row, or rows that belong together. Clusters are equal nodes with 8 GPUs in racks of
16 and blocks of 256, a third of them used by instances.
"""
