"""A small engine that really runs: agents that join a conductor, which serves an OpenAI-style API.

It has no weights. Its answers are computed from all agents, each of which contributes a **shard**
of every token, and are the same for the same model, number of agents and prompt. So an instance of
it starts, loses agents and recovers as one of a large model does, within a second and with little
memory: for trying out instances, and for tests of everything around them.

- An **agent** has an index, connects to the conductor and **joins**; an index joins once. When the
  connection is lost, it joins again.
- The **conductor** is ready when all agents have joined. While one is missing it answers requests
  with 503, and names the missing ones.
- Conductor and agent send each other **heartbeats**: a connection that is silent for
  `MISSED_HEARTBEATS` of them is lost.

`protocol` is what they exchange, `tokens` the computation; `agent` and `conductor` are the
two programs, `openai` the API. Joining needs no credentials: a NetworkPolicy keeps others away.
"""
