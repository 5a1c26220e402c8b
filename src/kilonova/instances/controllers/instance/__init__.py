"""The controller of InferenceEngineInstances. A key is an instance.

- The **record** of an allocation is an annotation of its gang: the names of its pods, and what was
  repaired. Each step of a repair is one write of the gang, with which it begins or has not begun;
  pods follow from the record.
- A **member** is an agent or the conductor; it has one pod, or two while it is migrated.

`observed` has what exists, `health` judges each member, a repair policy decides the next step,
`evolution` applies it to the record, and `desire` specifies what to write, as a `plan`;
`progress`, `status` and `gang_status` report. All of that is pure. `advisors` asks plug-ins and the
source of builds, `writer` writes what differs, and `controller` reads the caches.
"""
