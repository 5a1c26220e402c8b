"""Several pods on one GPU without MIG: MPS, time-slicing, and the choice among all ways.

- The **ladder** (`ladder`) specifies which way a request gets: a device of its own, a MIG instance,
  MPS or time-slicing, and why.
- With **MPS** processes run on a GPU at the same time, through a server of NVIDIA's Multi-Process
  Service. A pod has a **share** (`shares`): a part of the threads, and memory. One control daemon
  per device starts servers (`mps`).
- With **time-slicing** (`time_slicing`) processes take turns; nothing limits their memory.
"""
