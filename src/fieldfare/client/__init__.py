"""The client library: publish to a service, subscribe to it, and let it handle connections that break.

`session` is the protocol as a state machine; `aio` runs it on asyncio, `sync` in a thread, and the simulator under a
virtual clock. Applications begin with `fieldfare.connect`.
"""
