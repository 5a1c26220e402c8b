"""One replica of a set: all of its objects but pods, and how its groups and gangs are.

A **round** looks at the caches, decides (`desire`), writes what differs, waits until the caches
show it, and looks again until nothing is left to write; then it tells how things are. Gangs and
groups come first, cliques when theirs are seen, the rest with them: pods can start as soon as a
clique is there. A replica of a scaling group is a **unit**: its cliques are updated and started
anew together.
"""
