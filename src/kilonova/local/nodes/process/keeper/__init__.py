"""The keeper: the process that starts containers, keeps their output and learns how they end.

There is one for a folder, in a session of its own, so that it outlives Kilonova. It is made of
the standard library alone, because it stays as long as a pod runs. `client.KeeperRuntime` talks
to it over a socket in the folder, and starts it when none answers. It goes by itself when nothing
runs and nobody asks.

Words: the *view* is the file system as a container sees it; a *group* is all processes of a
container, also those that forked away; a *record* is what the folder holds about a container.
"""
