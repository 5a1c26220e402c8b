"""The pod network: an address for every pod, without privileges and without a network of its own.

Words. A pod's *address* is one of 127.64.0.0/11: all of 127.0.0.0/8 is loopback on Linux, and
anyone may bind there. A *call* is a `bind` or `connect` that a process of a pod wants to make. A
*route* leads from a Service's address and port to its *backends*. A *listener* is the file
descriptor at which the kernel hands over the calls of a container.

**How it works.** Before a container's command is executed, `install_filter` puts a seccomp filter
over it, which its descendants inherit. The filter allows everything, but for `bind` and `connect`
the kernel stops the caller and tells the listener. The keeper reads the address from the caller's
memory and decides (`decision.py`, pure): most calls proceed as if nothing had happened; for some
the keeper makes the call itself, on a duplicate of the caller's socket, with another address, and
the caller gets the outcome.

- A server that binds 0.0.0.0, ::, 127.0.0.1 or ::1 gets its pod's address: three replicas at
  port 8080 do not meet. A wildcard with port 0 is left alone: the kernel picks a port that is
  nobody's, it can be reached at the pod's address too, and clients that bind so before they
  connect still reach the internet.
- `localhost` is the pod's own for the ports that the pod has bound at any time, else the
  machine's.
- A ClusterIP leads to one of the Service's ready backends, or is refused if there is none.
- The nameservers of /etc/resolv.conf are routes like any other; they lead to the cluster's DNS.
  The sockets of resolver daemons (nss-resolve, nscd) are refused, which makes the C library ask
  the nameservers itself.
- To other pods a TCP client shows its pod's address, so that a server sees who calls.

A program that opens 0.0.0.0 and, beside it, :: for IPv6 alone means two sockets where a pod has
one address. Whichever comes second is let have the port as well (SO_REUSEPORT) or, if the first
does not share, is put at a port that nobody uses.

**No call holds the keeper up.** A connect to a loopback address is over at once, unless the
server's backlog is full: then it may take minutes. The keeper therefore makes a blocking call
as a non-blocking one, looks once whether it is over, and if not waits for it in its event loop.
A thread for each would be as right, but a hundred clients of one stuck server would need as many,
or starve all others. The socket is non-blocking for a few microseconds only. A bind or connect
costs about 0.1 ms more than without the network; reading and writing cost nothing.

**What it cannot do.** It arranges, and does not protect: what an address leads to is changed, but
a pod may bind or connect to anything on this machine by its real address, and between the
keeper's look and the kernel's a caller could change its mind. Not covered are `sendto` without
`connect` (musl's resolver; UDP clients that never connect), io_uring, 32-bit programs, sockets
that listen without having bound, and processes whose memory the keeper may not read (setuid ones,
when the keeper is not root). A UDP server at a fixed port cannot speak with the internet. A server
that binds only 127.0.0.1 can be reached by other pods. `getpeername` after a connect to a
ClusterIP tells the backend. Without CAP_SYS_ADMIN the filter needs no_new_privs: `sudo` and `ping`
with setuid do not work in a pod. When the keeper ends, bind and connect fail with ENOSYS in all
pods: the kernel gives no listener to anyone else. Before Linux 5.19 a signal that comes in the
middle of a call may make the caller repeat it, and get EINVAL or EISCONN; on any kernel, one whose
handler does not restart calls, and that comes before the keeper has taken the call, makes it fail
with EINTR although nothing was begun.

The package uses the standard library alone, and relative imports, so that the keeper may load it
without the rest of Kilonova.
"""

from .filter import install_filter
from .network import Network
from .probe import supported
from .routes import POD_NETWORK, Backend, Route, RouteError

__all__ = [
    "POD_NETWORK",
    "Backend",
    "Network",
    "Route",
    "RouteError",
    "install_filter",
    "supported",
]
