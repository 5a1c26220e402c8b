"""GPUs of nodes: what is there, how it is divided, who has it, and how it is doing.

The scheduler decides which GPUs a pod gets; this package reports what nodes have, and implements
what it decided.

- A **device** is a GPU, by its index and UUID (`devices.model`); a **MIG instance** is a part of
  one. A **backend** (`devices.backend`) is the way to the devices of one node: NVML, simulated
  hardware, recorded readings. Only backends know of drivers.
- The **inventory** of a node is what changes rarely: devices, links, MIG mode and instances.
  **Telemetry** is what changes always: utilisation, memory, power, temperature. An **event** is
  what a device reports by itself, such as an XID error.
- The **node agent** (`agent`) publishes the inventory of its node and makes what the scheduler
  assigned to pods: MIG instances by the **MIG engine** (`mig`), shares by MPS (`sharing`).
  The **device plugin** (`deviceplugin`) and the **DRA driver** (`dra`) give them to containers.
- **GPUWorkload** and **MIGStrategy** (`controllers`) are objects of `kgwe.nvidia.io`. The first
  becomes a PodGang and pods; the second specifies which MIG instances nodes should have in stock.
- The **exporter** (`exporter`) serves metrics of a node's devices to Prometheus.

Everything that calls a backend runs in a thread: drivers block.
"""
