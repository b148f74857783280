"""A real PostgreSQL server, as the tests of stores have it."""

from tests.store.conftest import postgres

__all__ = ["postgres"]
