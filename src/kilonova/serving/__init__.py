"""Inference as a service: model servers behind one address, scaled by load, down to zero.

Words:

- an **InferenceService** declares groups of equal model **servers**, a **gateway** in front of
  them, and **routes** from models to groups;
- a **server** is a replica of the PodCliqueSet of its group (of a Deployment in the namespaced
  mode), and so a gang of its own; its **entry pod** gets the requests;
- the **gateway** is Envoy: every request goes client → Envoy → server. Python is Envoy's **control
  plane**: it publishes listeners, routes, clusters and endpoints over ADS, and is no hop of a
  request that flows;
- a **held request** arrived when its group had no server: Envoy asks the control plane
  (`ext_authz`), which answers once a server is ready. Only then is the control plane asked;
- **signals** are the figures by which the autoscaler decides: in flight, queued, held, latencies.

`component.py` has the registrations, `assembly.py` builds all runnables. To follow a request of a
user, follow the objects: InferenceService → PodCliqueSet, gateway Deployment, Service → pods →
endpoints in Envoy.
"""
