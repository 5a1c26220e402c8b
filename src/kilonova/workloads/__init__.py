"""The operator of PodCliqueSets: it turns a PodCliqueSet into gangs of pods and keeps them running.

Terms. A *set* (PodCliqueSet) has *replicas*, numbered from 0; each replica is a complete system. A
replica has *cliques* (PodClique: pods of one role) and *scaling groups* (PodCliqueScalingGroup:
cliques that are scaled together). A clique in no scaling group is *standalone*; one replica of a
scaling group is a *group replica*. A *gang* (PodGang) is scheduled all at once: the *base* gang of
a replica holds its standalone cliques and the first `minAvailable` replicas of each scaling group;
each further group replica is a *scaled* gang, scheduled after its base. A *revision* is a snapshot
of a set's templates, stored as a ControllerRevision; every clique and pod carries the hash of the
revision that it is made from. The *incarnation* of a clique is how often all of its pods have been
replaced at once.

There are three main controllers, and each field is written by one of them:
- `controllers.podcliqueset`: one set. It stores revisions, decides how many replicas there are and
  which may be updated, deletes the objects of surplus replicas, and writes the set's status.
- `controllers.podcliqueset_replica`: one replica of a set. It writes the Service, cliques, scaling
  groups, autoscalers, claims, compute domains and gangs; updates group replicas; restarts gangs
  that are below minAvailable for longer than terminationDelay; and writes the statuses of scaling
  groups and gangs.
- `controllers.podclique`: one clique. It creates and deletes pods, releases them in startup order,
  updates them, and writes the clique's status.
`controllers.topology` and `backends` serve other schedulers; `admission` validates and defaults.

Decisions are pure functions (`desire` and the like) of values and a time. No state is kept outside
the API that a restart could lose, and pod names are computed, not random: after a crash between any
two writes the next reconcile completes the work. `operator.build_operator` is the entry point.
"""
