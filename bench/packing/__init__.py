"""How much of a cluster's GPUs is in use when tasks of a public trace have filled it.

Tasks arrive one at a time in an order drawn by a seed, never leave, and one that does not fit is
dropped. Until more is asked for than there is: by 30 percent. Ours stands beside Random, BestFit
and FGD (USENIX ATC'23), which are played in the same run on the same arrivals, and beside what
FGD's authors published.
"""

from bench.packing.command import packing

__all__ = ["packing"]
