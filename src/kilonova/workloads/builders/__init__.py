"""Builders of a set's objects. Pure: values in, JSON out.

Every object that the operator creates is built here, as it is to be at creation; controllers
compare it with the live object and write the difference. Fields of others (replicas that an
autoscaler sets, defaults of the API server) are omitted.

The part of the template that an object is made from is found by exact names computed from the set
(`template_lookup`), never by parsing a name: `worker` and `leader-worker` may be in one set.
"""
