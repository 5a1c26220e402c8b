"""WebSockets: messages, the channel protocols of exec, attach and port-forward, logs and
watches."""
