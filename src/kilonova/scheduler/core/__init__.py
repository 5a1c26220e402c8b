"""The scheduling algorithm as pure functions on values and arrays: no client, no clock, no
randomness.

`planner.Planner` is the entry point: it takes a `model.cluster.Cluster` and pending gangs, runs a
`scheduling_cycle.SchedulingCycle`, and returns a `Plan` (`decisions`) with placements, victims and
the reasons for the gangs that stay pending. The scheduler, `kilonova why`, what-if, replay and the
benchmarks all call it.

Words used throughout, beside those of Kubernetes:

- A **row** is the position of a node in the arrays of the snapshot. A node keeps its row as long
  as it exists; the row of a removed node is reused.
- A **shape** is everything about a pod that decides where it fits (requests, selectors,
  tolerations, affinity, claims). Equal pods share one shape, and results are cached by shape.
- A **placement** (`PodPlacement`) is a pod counted against a row, with its GPUs and claims.
- A **gang** is placed all or nothing. Its **groups** have members and a minimum; pods beyond the
  minimum are **surplus pods**: they are placed if they fit, and may be evicted one by one.
- A **gang part** is a node of the tree gang → bundle of groups → group, each with its own topology
  constraint.
- A **level** is a topology key, that is the key of a node label; the nodes with one value of that
  label are a **domain**.
- A **layout** describes the GPUs of a node: models, links, NUMA nodes, PCIe switches. Equal
  machines share one layout.
- A **share** (`GpuShare`) is what a pod has of one GPU: the whole device, a fraction, or a MIG
  instance.
- A **trial** is a series of changes to the snapshot or the cluster that is rolled back, or
  committed, at its end. It costs in proportion to what changes in it.

Subpackages, in the order in which a scheduling cycle uses them: `queueing` orders pending gangs,
`filters` computes feasible nodes and free capacity, `scoring` ranks nodes, `topology` chooses
domains, `placement` places a gang, `gpu` and `dra` select devices, `preemption` selects victims,
`backfill` protects the first gang that has waited too long, `consolidation` plans migrations, and
`explain` answers why a gang is pending. `model` holds the values that all of them read.
"""
