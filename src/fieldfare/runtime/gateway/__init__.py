"""The doors of the service: HTTP, server-sent events and WebSockets, over any broker that serves frames.

`application` puts it together; `routes` is the one table of endpoints, from which the OpenAPI document is made too.
"""
