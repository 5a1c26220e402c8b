"""Questions about the whole service, answered for all of its servers together.

A client that asks one server after another through a gateway would get the index of one, and the
statistics of another. So the gateway sends these requests here: all ready servers are asked at the
same time, and what they answer is merged (`merge`, pure). A server that fails or takes too long is
left out. A group that has no server is answered for by what it said last, or by what the service
says of its models; if neither is known, the question is held like any request, until it has one.
"""
