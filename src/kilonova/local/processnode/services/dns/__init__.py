"""The nameserver of cluster.local: CoreDNS's job.

`server` listens, `responder` answers a message or forwards it, `records` knows the cluster's names,
and `message` reads queries and writes answers with dnspython. The first query loads that library.
"""
