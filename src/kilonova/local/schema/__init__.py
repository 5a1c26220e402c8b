"""What an object of a kind looks like: the schema, and what is done with it.

A `Schema` is one node of a tree (or graph: a JSON schema may contain itself). It is read
from OpenAPI v3 as Kubernetes writes it, for built-in kinds from the generated tables, for
custom kinds from their CustomResourceDefinition, and is the same thing for both from then
on: validation, pruning, defaulting, strategic merge, server-side apply and CEL all walk it.
"""
