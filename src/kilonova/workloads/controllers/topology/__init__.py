"""The controller of ClusterTopologyBindings: keeps schedulers' Topologies in sync and reports
drift.

`controller.build_topology_controller` is the entry point.
"""
