"""Which group of servers gets a request, and what is answered without one."""
