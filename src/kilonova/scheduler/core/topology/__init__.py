"""Topology domains: which of them could hold a gang part, and how compact a placement is.

A **level** is a topology key (the key of a node label), a **domain** the nodes with one value of
it. A **gang part** is a gang, a bundle of its groups, or a single group; each may require or prefer
to be placed within one domain of a level. `gang_tree.build_gang_tree` builds the parts of a gang,
`domains.candidate_domains` finds their domains, `placement_score` rates the result.
"""
