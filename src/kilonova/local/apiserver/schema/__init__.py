"""Schemas of objects, and decoding, validation and defaulting by them.

A `Schema` (`node`) is one node of a tree (or graph: a JSON schema may contain itself). It is parsed
from OpenAPI v3, for built-in kinds from the generated tables (`builtin`), for custom kinds from
their CustomResourceDefinition. Validation, pruning, defaulting, strategic merge, server-side apply
and CEL all use it. The entry point is `schema_checker` (`checker`).
"""
