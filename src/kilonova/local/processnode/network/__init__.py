"""The pod network: an address for every pod, without privileges or network namespaces.

Terms. A pod's *address* is one of 127.64.0.0/11: all of 127.0.0.0/8 is loopback on Linux, and any
user may bind there. A *call* is a `bind` or `connect` system call of a process of a pod. A *route*
leads from a Service's address and port to its *backends*. A *listener* is the file descriptor on
which the kernel notifies the shim of a container's calls (seccomp user notification).

**How it works.** Before a container's command is executed, `install_filter` installs a seccomp
filter, which its descendants inherit. The filter allows everything, but for `bind` and `connect`
the kernel suspends the caller and notifies the listener. The runtime shim reads the address from
the caller's memory and decides (`decision.py`, pure): most calls proceed unchanged; some are made
by the shim itself, on a duplicate of the caller's socket, with another address, and the caller
gets the result.

- A server that binds 0.0.0.0, ::, 127.0.0.1 or ::1 gets its pod's address: three replicas on port
  8080 do not conflict. A wildcard with port 0 is left unchanged: the kernel picks a free port, it
  can be reached at the pod's address too, and clients that bind so before they connect still reach
  the internet.
- `localhost` is the pod's own for the ports that the pod has bound at any time, else the machine's.
- A ClusterIP leads to one of the Service's ready backends, or is refused if there is none.
- The nameservers of /etc/resolv.conf are routes like any other; they lead to the cluster's DNS.
  The sockets of resolver daemons (nss-resolve, nscd) are refused, which makes the C library query
  the nameservers itself.
- To other pods a TCP client has its pod's address, so that servers see which pod connects.

A program may open 0.0.0.0 and, beside it, :: for IPv6 only: two sockets where a pod has one
address. The second one shares the port (SO_REUSEPORT) or, if the first does not allow sharing, is
bound to an unused port.

**No call blocks the shim.** A connect to a loopback address completes at once, unless the server's
backlog is full: then it may take minutes. The shim therefore makes a blocking call as a
non-blocking one, checks once whether it is complete, and if not waits for it in its event loop. A
thread for each would work as well, but a hundred clients of one stuck server would need as many,
or starve all others. The socket is non-blocking for a few microseconds only. A bind or connect
costs about 0.1 ms more than without the network; reading and writing cost nothing.

**Limitations.** It routes, and does not isolate: a pod may bind or connect to anything on this
machine by its real address, and between the shim's read and the kernel's a caller could change the
address. Not covered are `sendto` without `connect` (musl's resolver; UDP clients that never
connect), io_uring, 32-bit programs, sockets that listen without having bound, and processes whose
memory the shim may not read (setuid ones, when the shim is not root). A UDP server on a fixed port
cannot communicate with the internet. A server that binds only 127.0.0.1 can be reached by other
pods. `getpeername` after a connect to a ClusterIP returns the backend. Without CAP_SYS_ADMIN the
filter needs no_new_privs: `sudo` and `ping` with setuid do not work in a pod. When the shim ends,
bind and connect fail with ENOSYS in all pods: the kernel gives the listener to no other process.
Before Linux 5.19 a signal during a call may make the caller repeat it, and get EINVAL or EISCONN;
on any kernel, a signal whose handler does not restart calls, and that arrives before the shim has
received the call, makes it fail with EINTR although nothing was started.

The package uses only the standard library and relative imports, so that the shim can load it
without the rest of Kilonova.
"""

from .pod_network import PodNetwork
from .routes import POD_NETWORK, Backend, RouteError, ServiceRoute
from .seccomp_filter import install_filter
from .support import is_supported

__all__ = [
    "POD_NETWORK",
    "Backend",
    "PodNetwork",
    "RouteError",
    "ServiceRoute",
    "install_filter",
    "is_supported",
]
