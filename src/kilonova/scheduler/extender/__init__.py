"""Our filters, scores and device choices for clusters that keep kube-scheduler.

kube-scheduler asks over HTTP, one **verb** after the other, about pods that request a managed
resource. `filter` says which nodes will do and why the others will not; `prioritize` how good they
are; `preempt` which nodes are worth pushing pods out of; `bind` chooses the devices and writes the
binding. All are answered from memory, from the same `World` and `Rooms` as our own scheduler's.

Nothing is reserved between `filter` and `bind`: kube-scheduler counts a pod on its node from the
moment it has chosen, so it sends no second pod after the same resource; and `bind` looks again and
books the devices before it writes, without giving way in between. So two pods never get one device,
whatever was asked before; at worst a binding is refused, and kube-scheduler tries the pod again.
"""
