"""OpenAI's API as servers of ours speak it: completions and chat completions, streamed or not.

- `completions` reads requests; `responses` has the bodies of answers, events and errors;
- `answers` turns **pieces**, the text token by token as a generator yields it, into the reply;
- `text` has the words that generators without weights write, and the rule of stop sequences.

What generates the pieces is the server's own: agents that compute shards (`instances.engine`), or
the model server's scheduler of sequences (`serving.modelserver`).
"""
