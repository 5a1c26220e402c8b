"""The controllers: one folder each."""
