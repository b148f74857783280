"""The conditions of a topic's subscriptions, and which of them an event satisfies.

A subscription is known by its handle here, an integer below 2**40 that is used once. New conditions are *young*: they
lie in blocks of bit masks, where one is added in microseconds; those that come by the hundred have a segment of their
own at once. A merge brings young conditions, such segments and what was removed meanwhile into few segments.

What may take long is done without the interest, so that a host can do it beside its loop: `compile_conditions`
before `add`, and the merge that `pending_merge` gives before `install`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from fieldfare.boxes import BoxTable
from fieldfare.errors import ConditionError
from fieldfare.language import compile, compile_many, effort  # noqa: A004 - see there
from fieldfare.matching.ids import ids_of
from fieldfare.matching.lists import locality_order
from fieldfare.matching.masks import BoxMasks
from fieldfare.matching.segment import Segment
from fieldfare.matching.stack import FEW_EVENTS, SegmentStack, Ways
from fieldfare.model import Condition
from fieldfare.overlay.covering import Covering

_QUICK_EFFORT = 60
_YOUNG_BOXES_MAX = 32  # what has more is not added box by box
_BLOCK_BOXES = 512
_BLOCK_EVENTS = 512  # events that blocks match one by one before a segment of them pays for itself
_UNMERGED_MAX = 8  # blocks, or segments, that wait for a merge; beyond it, it is done at once
_GONE_MIN = 1_000  # removed handles that are worth a merge
_GONE_MAX = 10_000  # and that are not waited for


@dataclass(frozen=True, slots=True)
class CompiledConditions:
    """Conditions, ready to be added to an interest."""

    errors: Mapping[int, ConditionError]  # the conditions that are not sound, by handle
    young: Sequence[tuple[int, Condition]]  # either these, to be added one by one,
    segment: Segment | None  # or a segment of all,
    table: BoxTable | None = None  # and their boxes


def is_quick(conditions: Sequence[str]) -> bool:
    """Whether `compile_conditions` surely takes less than about a millisecond."""
    units = effort(conditions) if len(conditions) <= _YOUNG_BOXES_MAX else None
    return units is not None and units <= _QUICK_EFFORT


def compile_conditions(handles: Sequence[int], conditions: Sequence[str]) -> CompiledConditions:
    """Compile conditions for `Interest.add`. It touches no interest: any thread may do it."""
    if len(conditions) > _YOUNG_BOXES_MAX:
        many = compile_many(conditions)
        errors = {handles[number]: error for number, error in many.errors}
        return CompiledConditions(errors, (), _segment_of(handles, many.table), many.table)
    compiled, errors = [], {}
    for handle, condition in zip(handles, conditions, strict=True):
        try:
            compiled.append((handle, compile(condition)))
        except ConditionError as error:
            errors[handle] = error
    if sum(len(condition.boxes) for _, condition in compiled) > _YOUNG_BOXES_MAX:
        table = BoxTable.from_conditions([condition for _, condition in compiled], range(len(compiled)))
        return CompiledConditions(errors, (), _segment_of([handle for handle, _ in compiled], table), table)
    return CompiledConditions(errors, compiled, None)


def compiled_condition(handle: int, condition: Condition) -> CompiledConditions:
    """A condition that is compiled already, for `Interest.add`."""
    if len(condition.boxes) <= _YOUNG_BOXES_MAX:
        return CompiledConditions({}, [(handle, condition)], None)
    table = BoxTable.from_conditions([condition], [0])
    return CompiledConditions({}, (), _segment_of([handle], table), table)


def covering_of(conditions: Sequence[str], boxes_max: int) -> Covering:
    """Few boxes that take all that some sound conditions take. Any thread may find it."""
    return Covering.of_table(compile_many(conditions).table, boxes_max)


def _young_segment(conditions: Sequence[tuple[int, Condition]]) -> Segment:
    table = BoxTable.from_conditions([condition for _, condition in conditions], range(len(conditions)))
    return _segment_of([handle for handle, _ in conditions], table)


def _segment_of(handles: Sequence[int], table: BoxTable) -> Segment:
    return SegmentStack((Segment.build(ids_of(handles), table),)).prepared().segments[0]


class _Block:
    """Young conditions."""

    def __init__(self) -> None:
        self.masks = BoxMasks()
        self.conditions: dict[int, Condition] = {}

    def add(self, handle: int, condition: Condition) -> None:
        self.masks.add(handle, condition.boxes)
        self.conditions[handle] = condition

    def remove(self, handle: int) -> bool:
        self.conditions.pop(handle, None)
        return self.masks.remove(handle)


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge to be done: what it reads does not change, so that any thread may call it."""

    old: SegmentStack  # the interest's, without what was added since the last merge
    added: tuple[Segment, ...]
    conditions: tuple[tuple[int, Condition], ...]  # of the blocks
    block_count: int
    gone: frozenset[int]

    def __call__(self) -> Merged:
        """Do it."""
        stack = SegmentStack((*self.old.segments, *self.added))
        if self.gone:
            stack = stack.without(np.isin(stack.ids.to_numpy(), list(self.gone)))
        if self.conditions:
            stack = SegmentStack((*stack.segments, _young_segment(self.conditions)))
        return Merged(self, stack.in_few_segments().prepared())


@dataclass(frozen=True, slots=True)
class Merged:
    """A merge that is done."""

    merge: Merge
    stack: SegmentStack


class Interest:
    """Which subscriptions an event satisfies."""

    def __init__(self) -> None:
        self._merged = SegmentStack()
        self._added: list[Segment] = []  # since the last merge
        self._old = self._merged  # with those
        self._blocks: list[_Block] = []  # of young conditions; only the last takes more
        self._young: SegmentStack | None = None  # the same as a segment, where that pays
        self._young_events = 0  # matched by the blocks since they changed
        self._gone: set[int] = set()  # removed, but still in a segment, or in an earlier block

    def add(self, compiled: CompiledConditions) -> Mapping[int, ConditionError]:
        """Add conditions, those that are sound; the others are returned with what is wrong."""
        if compiled.segment is not None:
            self._added.append(compiled.segment)
            self._join()
        for handle, condition in compiled.young:
            if not self._blocks or self._blocks[-1].masks.box_count >= _BLOCK_BOXES:
                self._blocks.append(_Block())
            self._blocks[-1].add(handle, condition)
            self._young_changed()
        if max(len(self._blocks), len(self._added)) > _UNMERGED_MAX:
            self._merge_now()
        return compiled.errors

    def remove(self, handle: int) -> None:
        """Forget a subscription; nothing happens if it is not here."""
        for block in self._blocks:
            if block.remove(handle):
                self._young_changed()
                if block is self._blocks[-1]:
                    return
        self._gone.add(handle)
        if len(self._gone) > max(_GONE_MAX, len(self._old) // 2):
            self._merge_now()

    # Merging

    def pending_merge(self) -> Merge | None:
        """A merge that is worth doing, if there is one. Call it anywhere, and `install` what it returns.

        Until then the interest may change as ever, and nothing of it is lost. Two merges may not overlap: that which is
        installed second is dropped.
        """
        if (
            len(self._blocks) < 2
            and self._old.has_few_segments
            and len(self._gone) <= max(_GONE_MIN, len(self._old) // 8)
        ):
            return None
        full = self._blocks[:-1]
        conditions = tuple(item for block in full for item in block.conditions.items())
        return Merge(self._merged, tuple(self._added), conditions, len(full), frozenset(self._gone))

    def install(self, merged: Merged) -> None:
        """Take a merge over."""
        merge = merged.merge
        if merge.old is not self._merged:
            return
        self._merged = merged.stack
        del self._added[: len(merge.added)], self._blocks[: merge.block_count]
        self._gone -= merge.gone
        self._join()
        self._young_changed()

    def _merge_now(self) -> None:
        if (merge := self.pending_merge()) is not None:
            self.install(merge())

    def _join(self) -> None:
        self._old = SegmentStack((*self._merged.segments, *self._added)) if self._added else self._merged

    def _young_changed(self) -> None:
        self._young, self._young_events = None, 0

    # Matching

    def match(self, events: Sequence[Mapping[str, Any]]) -> Iterable[tuple[int, list[int]]]:
        """For every subscription that any of the events satisfies, its handle and the numbers of those events."""
        masks, stack = self._old.ways_to_match(len(events))
        young_masks, young_stack = self._ways_to_match_young(len(events))
        found: Iterable[tuple[int, list[int]]] = _matched_singly([*masks, *young_masks], events)
        for some in (stack, young_stack):
            if some is not None and some.segments:
                found = chain(found, _matched_together(some, events))
        gone = self._gone
        return (item for item in found if item[0] not in gone) if gone else found

    def _ways_to_match_young(self, events: int) -> Ways:
        """By the blocks, unless so many events have come since the last change that a segment of them pays."""
        blocks = [block.masks for block in self._blocks]
        if not blocks or events <= FEW_EVENTS:
            return Ways(blocks, None)
        self._young_events += events
        if self._young is None and self._young_events > _BLOCK_EVENTS:
            conditions = [item for block in self._blocks for item in block.conditions.items()]
            self._young = SegmentStack((_young_segment(conditions),) if conditions else ())
        return Ways(blocks, None) if self._young is None else Ways((), self._young)


def _matched_singly(masks: Sequence[BoxMasks], events: Sequence[Mapping[str, Any]]) -> list[tuple[int, list[int]]]:
    if len(events) == 1:
        return [(handle, [0]) for some in masks for handle in some.match(events[0])]
    found: dict[int, list[int]] = {}
    for number, event in enumerate(events if masks else ()):
        for some in masks:
            for handle in some.match(event):
                found.setdefault(handle, []).append(number)
    return list(found.items())


def _matched_together(stack: SegmentStack, events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, list[int]]]:
    offsets, handles = stack.match_rows(events)
    if not len(handles):
        return
    # One integer for each match, its handle above its event: sorted, they are grouped, and events keep their order.
    bits = len(events).bit_length()
    matches = np.sort(handles << bits | np.repeat(np.arange(len(events)), np.diff(offsets)))
    handles, numbers = matches >> bits, (matches & ((1 << bits) - 1)).tolist()
    starts = np.flatnonzero(handles[1:] != handles[:-1]) + 1
    first, ends = int(handles[0]), [*starts.tolist(), len(numbers)]
    yield first, numbers[: ends[0]]
    for handle, start, end in zip(handles[starts].tolist(), ends, ends[1:], strict=False):
        yield handle, numbers[start:end]


def warm_up() -> None:
    """Compile and match something of every common type, and merge: a machine's first time compiles the kernels."""
    texts = ["number < 5 AND text = 'a'", "decimal > 0.5", "number + decimal > 1", "text LIKE '%a%'", "flag"]
    events: list[dict[str, Any]] = [{"number": 1, "text": "a", "flag": True}, {"number": 2, "decimal": 0.7}]
    interest = Interest()
    handle = 0
    for times in (1, _YOUNG_BOXES_MAX, _YOUNG_BOXES_MAX):
        handles = range(handle, handle + len(texts) * times)
        interest.add(compile_conditions(handles, texts * times))
        handle = handles.stop
    for rows in (events[:1], events, events * _BLOCK_EVENTS):
        list(interest.match(rows))
    if (merge := interest.pending_merge()) is not None:
        interest.install(merge())
    list(interest.match(events * _BLOCK_EVENTS))
    locality_order(np.zeros((1, 1), np.int32), [1])  # what only large trees need
