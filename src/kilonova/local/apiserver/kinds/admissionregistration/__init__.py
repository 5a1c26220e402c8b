"""Kinds of admissionregistration.k8s.io: webhook configurations, admission policies, bindings."""
