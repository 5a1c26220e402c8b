"""The state of pods: readiness, schedulability, and what each counts as in its clique. Pure.

A pod is *unplaced* when a scheduler has reported it unschedulable for longer than a grace period;
it *releases capacity* while it terminates on a node.
"""
