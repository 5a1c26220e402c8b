"""What a set's objects look like, down to the last label. Pure: values in, plain JSON out.

Every object that the operator makes is built here and nowhere else, as it is to be when it is
created; controllers compare it with what is there and write the difference. An object says
nothing of fields that belong to others (an autoscaler's replicas, a server's defaults).

What an object belongs to is looked up by exact names, worked out from the set (`lookup`), never
by taking a name apart: `worker` and `leader-worker` may be in one set.
"""
