"""The client library: publish to a service, subscribe to it, and let it handle connections that break.

`session` is the protocol as a state machine; `session_runner` runs it on asyncio, and the simulator under a virtual
clock. `aio` and `sync` are what applications see, which begin with `fieldfare.connect`.
"""
