"""Instances of models in one cluster: placed as a whole, repaired in parts.

- An **instance** (InferenceEngineInstance) has a number of **agents** on accelerators, and a
  **conductor** that serves requests with all of them.
- Its **allocation** is the place that the scheduler chose for all agents together; a relocation
  makes a new one.
- An **allocation strategy** states constraints for the scheduler; a **repair policy** decides what
  is done next about failed pods and nodes. Both are plug-ins.
- The **repair ladder** is the default policy: recreate pods, replace a node, relocate the
  instance, report that this cluster has no place for it.
"""
