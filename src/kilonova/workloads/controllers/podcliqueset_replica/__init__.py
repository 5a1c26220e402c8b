"""The controller of one replica of a set: all of its objects except pods.

A reconcile reads the caches (`observed`), decides (`desire`, a pure function that returns a
`write_plan`), writes the difference (`writer`), waits until the caches show it, and repeats until
nothing differs; then it writes the statuses of scaling groups and gangs. Gangs and groups are
created first, cliques when theirs are in the cache, the rest with them: pods can start as soon as a
clique exists. The cliques of one *group replica* (a replica of a scaling group) are updated and
restarted together. `gang_termination` decides what is restarted. `controller` is the entry point.
"""
