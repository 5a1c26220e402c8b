"""A scheduler extender: our filters, scores and GPU device selection behind kube-scheduler.

kube-scheduler calls one **verb** after the other over HTTP for pods that request a managed
resource. `filter` returns the feasible nodes and the reasons against the others; `prioritize`
scores them; `preempt` keeps the nodes where preemption helps; `bind` selects devices and writes the
binding. All verbs are answered from memory, by the same `SchedulerCache` and `FeasibilityCache` as
in our own scheduler.

Nothing is reserved between `filter` and `bind`: kube-scheduler assumes a pod on its node as soon as
it has chosen, so it sends no second pod for the same resource; and `bind` checks the node again and
assumes the pod with its devices before it writes, without an await in between. So two pods never
get the same device; at worst a binding fails, and kube-scheduler retries the pod.

Entry point: `assembly.build_extender`; `process` and `command` are `kilonova run extender`.
"""
