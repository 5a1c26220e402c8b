"""The autoscaler: how many servers the groups of an InferenceService have.

Words:

- a **decision** is the number of servers that there are to be, the mode that decided, and why, with
  the figures; it is made by the pure function `decision.decide`;
- a **mode** (demand, metric, SLA) votes for a number; the highest vote counts, and a mode that
  lacks its figures votes for the number that there is;
- the **memory** of a group is what is kept between two decisions; it is lost with the process, and
  then nothing is removed until the stabilization is over;
- the **busy rate** is how many requests a server answers per second when it has more than enough;
  by it requests that arrive are distinguished from a **backlog** that will be gone.

`controller` is the shell: it observes, decides, scales through `/scale`, and writes
`status.scaling`. `external` renders the objects of other scalers.
"""
