"""`kubectl fit`: the accelerators of a cluster as a picture in the terminal.

`topology_view` computes from a snapshot what there is, who holds it and what is wrong with it;
`annotations` adds what plug-ins report; `picture` draws it, in lines; `answer` states in words how
many copies of a build fit. All of it is pure.
"""
