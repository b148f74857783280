"""Networks that reach each other only through a cloud: over a bad WAN, and over one that is cut for a while.

Each network is a network namespace. The clients are in an office of their own, which reaches every edge at its best.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.overlay_live.deployment import LiveDeployment, Where
from tests.overlay_live.stage import PATIENCE_SECONDS, OverlayStage, play
from tests.scenarios.live import wait_until

from fieldfare.experiments.certificates import Authority
from fieldfare.experiments.wan import Place, Wan, WayQuality, why_unavailable
from fieldfare.runtime.link_protocol import TcpLinkOptions
from fieldfare.runtime.zookeeper_server import ServerOptions, ZooKeeperServer

NETWORKS = ("berlin", "paris")
GOOD = WayQuality(latency_seconds=0.01)


@pytest.fixture(scope="module")
def wan() -> Iterator[Wan]:
    if (reason := why_unavailable()) is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with Wan.star("cloud", [*NETWORKS, "office"], GOOD) as built:
        for place in ("cloud", *NETWORKS):
            built.set_ways("office", place, WayQuality())
        yield built


def where(place: Place, name: str, authority: Authority) -> Where:
    files = authority.files_for(name)
    settings = {"TLS_CA": files.authority, "TLS_CERTIFICATE": files.certificate, "TLS_KEY": files.key}
    variables = {f"FIELDFARE_BROKER_{setting}": str(file) for setting, file in settings.items()}
    return Where(place.address, ("ip", "netns", "exec", place.namespace), variables)


@pytest.fixture(scope="module")
def deployment(wan: Wan, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveDeployment]:
    folder = tmp_path_factory.mktemp("brokers")
    with ExitStack() as stack:
        server = ZooKeeperServer(folder / "zookeeper", ServerOptions(listen_host="0.0.0.0"))  # noqa: S104 - in a box
        with wan["cloud"].entered():
            stack.enter_context(server)
        authority = Authority(folder / "authority")
        made = LiveDeployment(folder, f"{wan['cloud'].address}:{server.port}")
        stack.callback(made.close)
        for name in ("r1", "r2"):
            made.add_routing(name, where(wan["cloud"], name, authority))
        for network in NETWORKS:
            made.add_edge(network, where(wan[network], network, authority))
        asyncio.run(made.start_all())
        yield made


@pytest.mark.parametrize("loss", [0.01, 0.05])
def test_packets_are_late_lost_and_doubled(loss: float, wan: Wan, deployment: LiveDeployment) -> None:
    bad = WayQuality(0.02, jitter_seconds=0.01, loss=loss, duplication=loss)
    for network in NETWORKS:
        wan.set_ways("cloud", network, bad)
    before = wan.counts()

    def each_has_lost_some() -> bool:
        now = wan.counts()
        return all(now["cloud", network].lost > before["cloud", network].lost for network in NETWORKS)

    async def until_each_has_lost_some(stage: OverlayStage) -> None:
        assert await wait_until(each_has_lost_some, stage.history, PATIENCE_SECONDS)

    try:
        with wan["office"].entered():
            asyncio.run(play(deployment, f"loss-{round(100 * loss)}", until_each_has_lost_some))
    finally:
        for network in NETWORKS:
            wan.set_ways("cloud", network, GOOD)


def test_a_network_is_cut_off_until_its_links_and_its_session_are_given_up(
    wan: Wan, deployment: LiveDeployment
) -> None:
    async def go_wrong(stage: OverlayStage) -> None:
        wan.cut("berlin", "cloud")
        try:
            await deployment.until(lambda registered: "berlin" in registered.missing)
            for network in NETWORKS:
                stage.subscribe_later(network)
            await asyncio.sleep(TcpLinkOptions().silence_seconds_max)
        finally:
            wan.heal()

    with wan["office"].entered():
        asyncio.run(play(deployment, "cut", go_wrong))
