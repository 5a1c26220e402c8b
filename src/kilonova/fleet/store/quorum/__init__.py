"""One object store on three, which goes on while any two are available.

Each object is a register that is replicated by CASPaxos (Rystsov, "CASPaxos: Replicated State
Machines without logs"), with an object of each of the three stores as an acceptor: what makes an
acceptor atomic is the store's own conditional write. So the conditional writes of the three
together are as good as those of one: of several writers that replace the same version one succeeds,
whichever stores they reach, and a read that begins after a write has ended returns it.

- A **ballot** orders attempts to write. It is unique.
- A **promise** of a store: it accepts nothing of a lower ballot from now on.
- A value is **chosen** when two stores have accepted it in the same ballot.

A write prepares (two stores promise, and return what they accepted last) and then proposes its
value. Every accepted value is a promise for the next ballot of the same writer, too, so that the
next write of the same writer, such as the renewal of a lease, is one request to each store. A read
takes one request to each store; if they disagree, it proposes the newest value again, and so
repairs the store that lags behind.
"""

from kilonova.fleet.store.quorum.store import QuorumStore

__all__ = ["QuorumStore"]
