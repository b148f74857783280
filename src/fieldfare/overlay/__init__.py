"""The overlay: how events travel between brokers. A summary of what is wanted, and the nodes that pass events on."""
