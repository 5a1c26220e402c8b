"""MIG instances of one node: planned, made, journalled, adopted.

- A **slot** is a profile at a start on a device; a **holder** is what has one: a pod, by its UID,
  or a claim. A **reservation** gives a slot to a holder before its instance is made.
- A **target** says what a device should have, a **plan** by which **steps** it gets there
  (`planner`, pure). The **engine** (`engine`) carries plans out, one step at a time per device,
  and writes each into its **journal** before it is done.
- **Adoption** is what a new engine does with instances that it finds.
- **Stock** is what is made in advance (`stock`).
- `parted` reads, writes and applies the files of NVIDIA's mig-parted.

The states of an instance and their changes are in `states`.
"""
