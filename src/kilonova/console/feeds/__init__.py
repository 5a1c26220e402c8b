"""Live tables and the pages that receive them.

`feed` sends the rows of a store, `workloads` joins several stores, `usage` polls metrics, `viewers`
are the open pages, `table_errors` names tables that cannot be read.
"""
