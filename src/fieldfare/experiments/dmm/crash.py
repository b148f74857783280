"""Figure 17: a fifth of all peers crash at once."""

from __future__ import annotations

from fieldfare.experiments.dmm.experiment import PeerRun
from fieldfare.experiments.dmm.laboratory import Laboratory
from fieldfare.experiments.dmm.metering import COPIES, FRAMES_ACKNOWLEDGED, LARGE, RING
from fieldfare.experiments.dmm.outcome import EventOutcome, Outcome
from fieldfare.experiments.dmm.scalability import METHOD
from fieldfare.experiments.dmm.settings import AR_CACHE, CRASHING_NETWORK, RELIABLE
from fieldfare.experiments.results import Cell, Figure, Panel, Series

_BIN_SECONDS = 10.0
_WHOLE = 0.999
_TRAFFIC = ((RING,), (COPIES, LARGE), (FRAMES_ACKNOWLEDGED,), ())  # what the columns of traffic count; (): all


def figure_17(laboratory: Laboratory) -> Figure:
    """What is delivered of what is published when, before and after the crash."""
    scale = laboratory.scale
    cases = [PeerRun(each, scale.few_subscriptions, do_crash=True) for each in (AR_CACHE, RELIABLE)]
    outcomes = laboratory.run_all(cases)
    peer_seconds = scale.peers * (scale.crash_at_seconds + scale.crash_watched_seconds + scale.tail_seconds)
    rows: dict[str, list[Cell]] = {}
    series = []
    for outcome in outcomes:
        soon, ever = _by_time(outcome, is_soon=True), _by_time(outcome, is_soon=False)
        rows[outcome.algorithm] = [
            _kept_ratio(outcome),
            sum(event.promised - event.kept for event in outcome.events if event.is_publisher_gone),
            min(soon.values()),
            _whole_again(soon),
            _whole_again(ever),
            *(_sent(outcome, *kinds) / peer_seconds for kinds in _TRAFFIC),
            "about 100 s",
        ]
        series.append(Series(f"{outcome.algorithm}, within 30 s", list(soon), list(soon.values())))
        series.append(Series(f"{outcome.algorithm}, at all", list(ever), list(ever.values())))
    return Figure(
        "17",
        f"delivered, of what was published when; {scale.crashed_share:.0%} of {scale.peers:,} peers crash",
        f"{METHOD}; heartbeats every {CRASHING_NETWORK.heartbeat_seconds:g} s",
        [
            "delivered, of live publishers",
            "lost with their publishers",
            "the worst 10 s, within 30 s",
            "whole again after s, within 30 s",
            "whole again after s, at all",
            "datagrams/s of each peer: ring",
            "copies, pieces",
            "frames acknowledged",
            "all",
            "paper",
        ],
        rows,
        "Deliveries count for the subscriptions that were active and whose peers did not crash, of events whose "
        "publishers did not crash either: their logs, which hold the events, are gone with them until they come back.",
        [
            Panel(
                "Delivery ratio",
                "published, seconds since the crash",
                "delivered",
                series,
                moments={0.0: "crash"},
            )
        ],
    )


def _living(outcome: Outcome) -> list[EventOutcome]:
    """The events whose publishers live."""
    return [event for event in outcome.events if not event.is_publisher_gone]


def _kept_ratio(outcome: Outcome) -> float:
    events = _living(outcome)
    return sum(event.kept for event in events) / max(1, sum(event.promised for event in events))


def _sent(outcome: Outcome, *kinds: str) -> int:
    """Datagrams of some kinds, or of all, since publishing began."""
    return sum(count for kind, (count, _) in outcome.publishing.items() if not kinds or kind in kinds)


def _by_time(outcome: Outcome, *, is_soon: bool) -> dict[float, float]:
    """By the time of publication, in seconds since the crash."""
    bins: dict[int, tuple[int, int]] = {}
    for event in _living(outcome):
        place = int((event.at_seconds - (outcome.crashed_at_seconds or 0.0)) // _BIN_SECONDS)
        promised, kept = bins.get(place, (0, 0))
        bins[place] = promised + event.promised, kept + (min(event.kept, event.soon) if is_soon else event.kept)
    return {
        (place + 0.5) * _BIN_SECONDS: kept / promised for place, (promised, kept) in sorted(bins.items()) if promised
    }


def _whole_again(by_time: dict[float, float]) -> float | None:
    """From how many seconds after the crash on all is delivered of what is published then; None: from none."""
    lacking = [at for at, share in by_time.items() if share < _WHOLE and at > 0]
    if lacking and max(lacking) >= max(by_time):
        return None
    return max(lacking) + _BIN_SECONDS / 2 if lacking else 0.0
