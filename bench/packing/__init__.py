"""GPU utilization of a cluster filled with tasks of a public trace.

Tasks arrive one at a time in an order drawn by a seed and never end; a task that does not fit is
dropped. Arrivals continue until 130 percent of the capacity is requested. Ours is compared with
Random, BestFit and FGD (USENIX ATC'23), simulated in the same run on the same arrivals, and with
the results that FGD's authors published.
"""
