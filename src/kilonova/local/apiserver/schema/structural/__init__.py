"""Structural schemas of custom resources (apiextensions-apiserver's pkg/apiserver/schema).

Validation of the schemas themselves (`structural_validation`, `schema_validation`), and of objects
by them: pruning, defaulting, validation. The entry point is `StructuralChecker` (`checker`).
"""
