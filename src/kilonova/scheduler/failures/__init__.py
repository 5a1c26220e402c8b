"""What the scheduler remembers of failed pods, bindings and attempts.

`backoff.GangBackoff`: gangs whose attempt failed are retried with exponential backoff.
`node_avoidance.NodeAvoidance`: a workload avoids the nodes on which its pods failed, or which
rejected a binding, as long as others are feasible; `pod_failures` decides which nodes are at fault.
A **binding rejection** is a binding that the API server permanently refuses, with its message.
"""
