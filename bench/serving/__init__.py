"""Inference services: the gateway and what it costs, lost servers, steps of load, starts from zero,
the model server, and the autoscaler in a replay.

Words:

- **ours** is the gateway as the control plane configures it, with its statistics on; it reads the
  same resources from files;
- **SuperSONIC's** is the configuration that its chart renders with its default values, in the same
  Envoy (`supersonic`). Both have one worker thread, and the same servers and load;
- the load is that of `kilonova serve bench`, in the process of the benchmark.
"""
