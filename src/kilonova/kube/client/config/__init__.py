"""Client configuration: kubeconfig, in-cluster service account and credentials.

As client-go's clientcmd and rest.Config. `client_config.connect` is the entry point.
"""
