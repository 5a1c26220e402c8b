"""`kilonova serve bench`: load on a service, and what came back.

Words:

- a **target** sends one request and reports how it ended, its **outcome** (`targets`: v2 over gRPC
  and HTTP, the OpenAI API, any HTTP);
- **closed loop**: a number of clients, each of which sends its next request when it has the answer
  to the last one. **Open loop**: requests arrive at a rate (`arrivals`) or at the times of a
  **trace**, whether the earlier ones are answered or not, as those of many users do;
- a **profile** specifies how the number of clients, or the rate, changes with time (`profile`);
- a **sample** is a request of which the times are known (`recorder`). In an open loop its latency
  counts from when it was to be sent (`runner`), so that a slow server cannot hide by delaying the
  generator (coordinated omission);
- an **objective** is a bound of a latency; **attainment** is the share of all requests that meet
  every objective (`objectives`);
- a **result** is computed from the samples after the run (`analysis`), and printed (`report`).
"""
