"""From the text that a gateway or server answers to the signals of a group. Pure.

`exposition` reads Prometheus' text format, `gateway_stats` and `server_metrics` find in it what is
asked for, `reading` subtracts and adds what several targets report, `window` makes rates and
quantiles of the last seconds.
"""
