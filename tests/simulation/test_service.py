"""A machine that takes time for each input: queues build up as the formulas of queueing theory say."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from fieldfare.messages import DatagramReceived, Effect, Input, SendDatagram, SetTimer, Started, TimerDue
from fieldfare.simulation import World
from fieldfare.simulation.clock import START
from fieldfare.simulation.host import SimulatedHost

SERVICE_SECONDS = 0.01


class Noting:
    """A node that notes what it is told and when, and answers each datagram."""

    def __init__(self, timer_at: float | None = None) -> None:
        self.told: list[tuple[float, Input]] = []
        self._timer_at = timer_at

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        self.told.append((now, message))
        match message:
            case Started() if self._timer_at is not None:
                return [SetTimer("once", self._timer_at)]
            case DatagramReceived(address, "move the timer"):
                return [SetTimer("once", now + 1.0), SendDatagram(address, "moved")]
            case DatagramReceived(address, number):
                return [SendDatagram(address, number)]
        return []


def machine(world: World, node: Noting) -> SimulatedHost:
    host = world.node("server", lambda: node)
    host.serve_in(lambda message: 0.0 if isinstance(message, Started) else SERVICE_SECONDS)
    host.start()
    return host


def at(seconds: float) -> object:
    """A time, as exactly as a clock that counts from 1970 tells it."""
    return pytest.approx(START + seconds, abs=1e-6)


def test_one_input_after_the_other_is_handled_when_it_has_been_served() -> None:
    world, node = World(), Noting()
    host = machine(world, node)
    world.run_for(1.0)
    for number in range(3):
        host.tell(DatagramReceived("client", number))
    assert host.service_report().queue_length == 2
    world.run_for(0.015)
    report = host.service_report()
    assert (report.queue_length, report.inputs_served) == (1, 2)  # one of them was to start
    assert report.busy_seconds == pytest.approx(0.015, abs=1e-6)
    world.run_for(1.0)
    assert node.told[1:] == [(at(1.0 + (number + 1) * 0.01), DatagramReceived("client", number)) for number in range(3)]


@pytest.mark.parametrize("utilisation", [0.3, 0.7, 0.9])
def test_with_random_arrivals_it_is_the_queue_of_the_textbook(utilisation: float) -> None:
    """M/D/1: the mean number of those that wait is u² / 2(1 - u), and the mean time 1/rate of that."""
    world, rng = World(), random.Random(11)
    host = machine(world, Noting())
    rate = utilisation / SERVICE_SECONDS

    def arrive() -> None:
        host.tell(DatagramReceived("client", 0))
        world.clock.after(rng.expovariate(rate), arrive)

    arrive()
    world.run_for(50.0)  # until it has settled
    settled = host.service_report()
    world.run_for(800.0)
    report = host.service_report().since(settled)
    waiting = utilisation**2 / (2 * (1 - utilisation))
    assert report.seconds == pytest.approx(800.0)
    assert report.utilisation == pytest.approx(utilisation, rel=0.03)
    assert report.queue_length_mean == pytest.approx(waiting, rel=0.12)
    assert report.waiting_seconds / report.inputs_served == pytest.approx(waiting / rate, rel=0.12)


def test_more_than_a_machine_can_serve_waits_longer_and_longer() -> None:
    world = World()
    host = machine(world, Noting())

    def arrive() -> None:
        host.tell(DatagramReceived("client", 0))
        world.clock.after(SERVICE_SECONDS / 2, arrive)

    arrive()
    world.run_for(10.0)
    report = host.service_report()
    assert report.utilisation == pytest.approx(1.0, abs=0.01)
    assert report.queue_length == pytest.approx(1000, abs=2)
    assert report.queue_length_mean == pytest.approx(500, rel=0.01)


def test_a_timer_waits_its_turn_and_takes_time_too() -> None:
    world, node = World(), Noting(timer_at=START + 1.005)
    host = machine(world, node)
    world.run_for(1.0)
    for number in range(3):
        host.tell(DatagramReceived("client", number))  # served until 1.01, 1.02 and 1.03
    world.clock.after(0.02, lambda: host.tell(DatagramReceived("client", 3)))
    world.run_for(0.025)
    assert host.service_report().queue_length == 2
    world.run_for(1.0)
    assert node.told[-2:] == [(at(1.04), TimerDue("once")), (at(1.05), DatagramReceived("client", 3))]
    assert host.service_report().inputs_served == 6
    assert world.clock.is_idle


def test_a_timer_that_is_moved_while_it_waits_its_turn_is_due_at_its_new_time() -> None:
    world, node = World(), Noting(timer_at=START + 1.005)
    host = machine(world, node)
    world.run_for(1.0)
    host.tell(DatagramReceived("client", 0))
    host.tell(DatagramReceived("client", "move the timer"))
    world.run_for(1.0)
    assert not any(isinstance(message, TimerDue) for _, message in node.told)
    world.run_for(1.0)
    assert node.told[-1] == (at(2.03), TimerDue("once"))


def test_a_crash_takes_all_that_waits() -> None:
    world, node = World(), Noting()
    host = machine(world, node)
    for number in range(5):
        host.tell(DatagramReceived("client", number))
    world.run_for(0.005)
    world.crash(host)
    assert host.service_report().queue_length == 0
    world.restart(host)
    host.tell(DatagramReceived("client", "after"))
    world.run_for(1.0)
    assert [message for _, message in node.told] == [Started(), Started(), DatagramReceived("client", "after")]
    assert host.service_report().busy_seconds == pytest.approx(0.015, abs=1e-6)


def test_a_machine_without_a_service_time_has_no_report() -> None:
    host = World().node("server", Noting)
    with pytest.raises(RuntimeError, match="serve_in"):
        host.service_report()
