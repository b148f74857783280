"""The embedded ZooKeeper server: it starts, is alone, and ends with whoever started it."""

from __future__ import annotations

import importlib.util
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import check_java
from tests.faults.processes import Process, environment, users_of, wait_until

from fieldfare.errors import MissingDependencyError, ServiceError
from fieldfare.runtime.zookeeper_server import (
    ServerOptions,
    ZooKeeperEnsemble,
    ZooKeeperServer,
    ask,
    read_mntr,
)


@pytest.fixture(autouse=True)
def _java() -> None:
    check_java()


def test_it_serves_on_this_machine_and_tells_of_itself(zookeeper: ZooKeeperServer) -> None:
    assert ask(zookeeper.port, "ruok") == "imok"
    assert "Mode: standalone" in ask(zookeeper.port, "srvr")
    measured = read_mntr(zookeeper.port)
    assert int(measured["zk_znode_count"]) >= 1
    assert {"zk_watch_count", "zk_avg_latency", "zk_max_latency"} <= measured.keys()
    with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.2", zookeeper.port), 5.0):
        pass


def test_it_ends_and_keeps_its_port_and_data_when_it_starts_again(tmp_path: Path) -> None:
    with ZooKeeperServer(tmp_path) as server:
        port = server.port
        server.send_signal(signal.SIGKILL)
        assert not server.is_running
        server.start()
        assert server.port == port
        assert server.is_running
    assert not server.is_running
    assert not users_of(tmp_path)
    with pytest.raises(OSError, match="refused"):
        ask(port, "ruok")


def test_it_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from fieldfare.runtime.zookeeper_server import ZooKeeperServer\n"
        "with ZooKeeperServer(Path(sys.argv[1]) / 'server') as server: print('serving', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(tmp_path)) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"serving\n"
        assert len(users_of(tmp_path)) >= 3  # it, what watches it, and the server
        parent.kill()
    wait_until(lambda: not users_of(tmp_path), "the server ends")


def test_it_is_started_again_when_it_ends_by_itself(tmp_path: Path) -> None:
    def servers() -> list[Process]:
        jvms = {process.pid: process for process in users_of(tmp_path) if process.is_jvm}
        return [process for process in jvms.values() if process.parent not in jvms]  # a fork before its exec is none

    def serves() -> bool:
        try:
            return ask(server.port, "ruok") == "imok"
        except OSError:
            return False

    with ZooKeeperServer(tmp_path, ServerOptions(sound_seconds=0.0)) as server:
        (first,) = servers()
        first.kill()
        wait_until(lambda: first.pid not in [process.pid for process in servers()] and serves(), "it serves again")
    assert not users_of(tmp_path)


def test_three_servers_replicate_each_other(tmp_path: Path) -> None:
    with ZooKeeperEnsemble(tmp_path) as ensemble:
        states = [read_mntr(server.port)["zk_server_state"] for server in ensemble.servers]
        assert sorted(states) == ["follower", "follower", "leader"]
        assert ensemble.hosts.count(",") == 2
    assert not users_of(tmp_path)


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.delenv("JAVA_HOME", raising=False)
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(MissingDependencyError, match="needs Java: install"):
            ZooKeeperServer(tmp_path).start()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'fieldfare\[spark\]'"):
        ZooKeeperServer(tmp_path).start()


def test_a_port_that_is_taken_is_an_error_that_says_so(tmp_path: Path, zookeeper: ZooKeeperServer) -> None:
    with pytest.raises(ServiceError, match="in use"):
        ZooKeeperServer(tmp_path, ServerOptions(port=zookeeper.port)).start()
    assert not users_of(tmp_path)
