"""Model instances in many clusters.

- The **manager** (Nebula) decides how many instances of which release each cluster has. Of several
  managers one leads, elected through the fleet's **store**, which is none of the clusters.
- A **member** is a cluster with an agent, which reads from the store what its cluster is to run and
  writes what it runs. The manager needs no access to members.
- An **epoch** is the fencing token of a leader: a member refuses what an earlier leader decided.
"""
