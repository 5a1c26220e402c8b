"""MIG instances of one node: planned, made, journalled, adopted.

- A **slot** is a profile at a start on a device; a **holder** is what has one: a pod, by its UID,
  or a claim. A **reservation** gives a slot to a holder before its instance is made.
- A **target** is what a device should have, a **plan** the **steps** by which it gets there
  (`plan`, pure). The **engine** (`engine`) executes plans, one step at a time per device, and
  writes each into its **journal** before it is done (`execution`).
- **Adoption** is what a new engine does with instances that it finds.
- **Stock** is what is made in advance (`plan.stock`).
- `parted` reads, writes and applies the files of NVIDIA's mig-parted.

The states of an instance and their changes are in `states`.
"""
