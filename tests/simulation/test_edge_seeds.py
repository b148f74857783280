"""Many random worlds, each from a seed: FIELDFARE_SEEDS=5000 tries more, FIELDFARE_SEED=17 replays one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import pytest
from tests.simulation.scenario import Scenario

from fieldfare.client.session_subscription import SessionSubscription
from fieldfare.errors import BrokenPromiseError
from fieldfare.messages import Delivery
from fieldfare.routing.publishers import Publishers
from fieldfare.simulation.disk import SimulatedLog
from fieldfare.simulation.host import SimulatedHost

SEEDS = int(os.environ.get("FIELDFARE_SEEDS", "100"))
ONLY = os.environ.get("FIELDFARE_SEED")
PARTS = 10  # so that they can run side by side


def run(seeds: Iterable[int], *, is_harsh: bool = False) -> None:
    for seed in seeds:
        scenario = Scenario(seed, is_harsh=is_harsh)
        try:
            scenario.run()
        except Exception as error:
            plan = "\n".join(f"  {fault}" for fault in scenario.faults)
            error.add_note(f"seed {seed}; to replay it: FIELDFARE_SEED={seed} pytest {__file__}\nfaults:\n{plan}")
            for name, machine in scenario.world.machines.items():
                if isinstance(machine, SimulatedHost):
                    error.add_note(f"{name} waits for: {machine.waits()}")
            raise


@pytest.mark.parametrize("part", range(PARTS) if ONLY is None else [0])
def test_promises_hold_whatever_goes_wrong(part: int) -> None:
    run(range(part, SEEDS, PARTS) if ONLY is None else [int(ONLY)])


@pytest.mark.parametrize("part", range(PARTS) if ONLY is None else [0])
def test_promises_hold_where_machines_pause_clocks_drift_and_limits_are_reached(part: int) -> None:
    run(range(part, SEEDS // 3, PARTS) if ONLY is None else [int(ONLY)], is_harsh=True)


# The seeds are worth something only if they find what is broken.


def without_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log says that records are stored before they are."""
    append = SimulatedLog.append

    def hasty(log: SimulatedLog, number: int, *args: object, **options: object) -> None:
        append(log, number, *args, **options)  # type: ignore[arg-type]
        log._clock.after(0.0, lambda: log.on_stored(number))

    monkeypatch.setattr(SimulatedLog, "append", hasty)


def without_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The edge does not notice that a publication was sent again."""
    monkeypatch.setattr(Publishers, "repeated", lambda _self, _publisher, _sequence, _count: 0)


def without_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gives to the application whatever comes."""

    def fresh(subscription: SessionSubscription, events: list[Delivery]) -> list[Delivery]:
        subscription.seen = max([subscription.seen, *(event.position for event in events)])
        return events

    monkeypatch.setattr(SessionSubscription, "fresh", fresh)


def without_taking_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of a publication that could not be stored stay taken."""
    monkeypatch.setattr(Publishers, "take_back", lambda _self, _publisher, _sequence: None)


@pytest.mark.parametrize("breaks", [without_flush, without_numbers, without_positions, without_taking_back])
def test_the_seeds_find_what_is_broken(
    breaks: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch)
    with pytest.raises(BrokenPromiseError):
        run(range(300))
