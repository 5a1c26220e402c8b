"""Consolidation: migrates pods so that nodes, or gaps of the size of a gang, become free.

A **migration** evicts the pods of one gang while a **capacity hold** keeps capacity for their
replacements on other nodes; each replacement is bound to a **held slot** when its controller
creates it.

Entry point: `consolidator.Consolidator`; `search.search_consolidation` finds the migrations,
`migrator.PodMigrator` executes them.
"""
