"""`fieldfare bench broker`: ours and real brokers in one run on loopback, every delivery counted."""
