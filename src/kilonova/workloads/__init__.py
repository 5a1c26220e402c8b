"""The operator of PodCliqueSets: from what people declare to gangs of pods, and back again.

Words. A *set* (PodCliqueSet) has *replicas*, numbered from 0; each is a whole system. A replica
has *cliques* (PodClique), pods of one role, and *groups* (PodCliqueScalingGroup), cliques of which
there are several replicas together. A *gang* (PodGang) is what is placed at once: the *base* gang
of a replica holds its cliques and the replicas of its groups that there must be; each replica of a
group beyond those is a *scaled* gang, and is placed after the base. A *revision* is the templates
of a set as they were at some time; every clique and pod says by a hash which one it is made from.

Three controllers, one for each size of thing, and nobody writes what is another's:

- `sets`: one set. Keeps revisions, says which replicas there are and which may be updated,
  deletes what belongs to replicas that there are no more, and tells how the set is.
- `replicas`: one replica of a set. Makes its Service, cliques, groups, autoscalers, claims,
  compute domains and gangs; updates replicas of groups; starts gangs anew that are broken for too
  long; tells how groups and gangs are.
- `cliques`: one clique. Makes and removes its pods, releases them in order, updates them, tells
  how the clique is.

All judgement is in pure functions (`desire` and its like), given values and a time. Nothing is
remembered outside the API, and names of pods are worked out, not drawn: after a crash between any
two writes the next round does what was left.
"""
