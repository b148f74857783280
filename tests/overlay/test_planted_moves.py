"""The checks of moving publishers are worth something only if they find what is broken: each bug here turns one red."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.client import test_publisher_move_machine as machine
from tests.overlay import test_overlay_seeds as seeds
from tests.routing import test_publisher_moves as steps
from tests.routing.harness import Harness

from fieldfare.client.session_publications import SessionPublications
from fieldfare.errors import BrokenPromiseError
from fieldfare.messages import SealedPublisher
from fieldfare.routing.importing import Imports
from fieldfare.routing.moved_publisher import (
    AdoptionOfPublisher,
    MovedPublisher,
    MoveState,
    SettlingPublisher,
)
from fieldfare.routing.ports import LogPort
from fieldfare.routing.publisher_moves import PublisherMoves
from fieldfare.routing.replaying import Replays

Bug = Callable[[pytest.MonkeyPatch], None]


def resumed_before_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source says that it has sealed a publisher before its log says so."""
    settled = PublisherMoves.settled

    def hasty(moves: PublisherMoves, settling: SettlingPublisher, now: float) -> None:
        appended: list[Any] = []
        append = LogPort.append

        def noted(log: LogPort, record: Any, waiter: Any) -> None:
            appended.append(waiter)
            append(log, record, None)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LogPort, "append", noted)
            settled(moves, settling, now)
        for waiter in appended:
            moves.seal_stored(waiter, now)

    monkeypatch.setattr(PublisherMoves, "settled", hasty)


def sealed_before_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source seals numbers whose events may yet not be stored."""
    monkeypatch.setattr(LogPort, "wait_for_all", lambda *_: False)


def adopted_before_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target lets a publisher go on before its log has what it brought."""
    adopt = PublisherMoves.adopt

    def hasty(moves: PublisherMoves, link: str, identity: Any, frame: Any, now: float) -> None:
        adopt(moves, link, identity, frame, now)
        moved = moves._publishers[identity.tenant, frame.sealed.publisher]
        if moved.state is MoveState.ADOPTING:
            moves.adoption_stored(AdoptionOfPublisher(moved, frame.sealed, now, MoveState.HERE), now)

    monkeypatch.setattr(PublisherMoves, "adopt", hasty)
    stored = PublisherMoves.adoption_stored

    def once(moves: PublisherMoves, adoption: AdoptionOfPublisher, now: float) -> None:
        if adoption.moved.state is MoveState.ADOPTING:
            stored(moves, adoption, now)

    monkeypatch.setattr(PublisherMoves, "adoption_stored", once)


def numbers_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target does not know what the source accepted."""
    _strip(monkeypatch, last=-1)


def ids_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target does not know the ids of what the source accepted."""
    _strip(monkeypatch, ids=[])


def _strip(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    take_over = PublisherMoves._take_over

    def forgetful(moves: PublisherMoves, moved: MovedPublisher, sealed: SealedPublisher, at: float) -> None:
        topics = [msgspec.structs.replace(each, **changes) for each in sealed.topics]
        take_over(moves, moved, msgspec.structs.replace(sealed, topics=topics), at)

    monkeypatch.setattr(PublisherMoves, "_take_over", forgetful)


def seal_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that restarts does not know that it sealed a publisher."""
    recover = PublisherMoves.recover

    def forgetful(moves: PublisherMoves, record: Any) -> None:
        if type(record).__name__ != "PublisherSealed":
            recover(moves, record)

    monkeypatch.setattr(PublisherMoves, "recover", forgetful)


def doubt_carried_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client sends to the target what the source has, under new numbers."""
    sealed = SessionPublications.sealed

    def careless(publications: SessionPublications, state: SealedPublisher) -> Any:
        outputs = sealed(publications, msgspec.structs.replace(state, topics=[]))
        for queue in publications._topics.values():
            queue.renumber(max((each.last for each in state.topics), default=-1) + 1)
        return outputs

    monkeypatch.setattr(SessionPublications, "sealed", careless)


def follows_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Edges take a publisher's later events before its earlier ones from the edge that it left."""
    monkeypatch.setattr(Imports, "is_early", lambda *_: False)


def follows_ignored_by_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where logs are read for a subscription that begins with what is alive."""
    monkeypatch.setattr(Replays, "_is_early", lambda *_: False)


def _two_edges() -> tuple[Harness, Harness]:
    source, target = Harness(), Harness()
    target.start(())
    return source, target


def ids_without_numbers() -> None:
    steps.test_ids_without_numbers_are_taken_along_too(*_two_edges())


def it_takes_its_numbers_along() -> None:
    steps.test_it_takes_its_numbers_along(*_two_edges())


def a_seal_waits() -> None:
    steps.test_a_seal_waits_for_what_is_on_its_way_and_knows_what_was_not_stored(Harness())


def an_adoption_survives() -> None:
    steps.test_an_adoption_survives_and_may_be_repeated(*_two_edges())


def some_seeds() -> None:
    seeds.run(range(12), moves_publishers=True)


@pytest.mark.parametrize(
    ("plant", "find"),
    [
        (resumed_before_sealed, machine.test_a_source_that_crashes_before_the_seal_is_stored_is_asked_again),
        (sealed_before_settled, a_seal_waits),
        (adopted_before_stored, an_adoption_survives),
        (numbers_left_behind, it_takes_its_numbers_along),
        (ids_left_behind, ids_without_numbers),
        (seal_forgotten, machine.test_a_source_that_crashes_after_the_seal_has_sealed_it),
        (doubt_carried_along, machine.test_what_is_in_doubt_at_the_source_is_resolved_by_the_seal),
        (follows_ignored, some_seeds),
        (follows_ignored_by_replays, some_seeds),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_broken_is_found(plant: Bug, find: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((BrokenPromiseError, AssertionError)):
        find()
