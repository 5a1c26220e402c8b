"""MPS on the devices of a node: a control daemon per device (`daemon`) starts servers, the program
behind it is reached through `control`, and `sharing` gives pods their shares."""
