"""kube-proxy's job: routes from Services to pods, and listeners on loopback."""
