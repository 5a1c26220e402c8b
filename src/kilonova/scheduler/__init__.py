"""The scheduler: places gangs of pods on nodes and binds them.

`core` holds the pure decision: values and arrays in, a plan out; it knows neither Kubernetes nor a
clock. `convert` turns API objects (`objects`) into those values. Around both: `cache` follows the
informers (`storage`: those of volumes) and counts assumed pods, `failures` remembers failed pods
and attempts, `cycle` runs the scheduling loop, `eviction` and `binding` write what was decided,
`status` reports it, `reservations` and `consolidation` hold and free capacity. `library` offers
snapshots, what-if and reports to other packages, and `extender` serves kube-scheduler.

A **gang** is scheduled all or nothing; it is **partial** while fewer pods than its minimum are
bound. A pod without a gang is a **single-pod gang**. A pod is **assumed** from the decision until
the informers show its binding.

Entry point: `assembly.build_scheduler`.
"""
