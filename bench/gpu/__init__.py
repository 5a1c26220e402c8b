"""MIG: how fast instances are placed and repacked, and how many requests a fleet serves.

Streams of requests for profiles arrive and depart at random; one that does not fit when it arrives
is lost. Every policy sees the same streams: the scheduler's placement, which learns the demand as
it goes; first fit, which takes the lowest start of the first GPU; and a fixed order of starts,
which keeps small instances high and large ones low, as HAMi does. The optimum knows each stream in
advance.
"""
