"""What becomes of devices that fail: `assessment` decides what an error means, `recovery` what to
do next. Both are pure; what they decide is kept in an annotation of the Node
(`kilonova.api.gpu.health`), so that it outlasts the agent.

A device is **unhealthy** while no pod may get it. It is drained: pods that use it are evicted, as
far as their disruption budgets allow. Once idle it is reset if that may help, observed for some
time, and counts as healthy again. What only a reboot or a repair helps waits for that.
"""
