"""Snapshots of clusters: `capture` takes one, `live` keeps one up to date, `file` saves and loads.

`snapshot` defines it, `migration` reads files of earlier versions, and `cached` makes one from the
scheduler's cache.
"""
