"""The bridge to the pipeline: nothing lost, nothing twice, in order, on a small pipeline."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.runtime.small_pipeline import SmallPipeline

from fieldfare.events import UnreadableError
from fieldfare.messages import Beside, Envelope, HandedOver, HandEvents, HandSubscription, Input, PipelineMatched
from fieldfare.pipeline.json_events import JsonEvents
from fieldfare.pipeline.ledger import Slice
from fieldfare.runtime.spark import SparkBridge, SparkOptions, SparkTopic
from fieldfare.runtime.spark.event_lines import EVENT, MARK, Carried, Columns
from fieldfare.runtime.spark.topic_folder import TopicFolder
from fieldfare.store import open_store

DEADLINE_SECONDS = 60.0
OURS, TRAFFIC = "ours", "traffic"


class Edge:
    """What the bridge tells, and how far the edge's log is."""

    def __init__(self, stored: int = -1) -> None:
        self.told: list[Input] = []
        self.stored = stored
        self.is_storing = True

    def tell(self, message: Input) -> None:
        self.told.append(message)
        if isinstance(message, PipelineMatched) and self.is_storing:
            self.stored = max(self.stored, message.batch)

    @property
    def handed(self) -> dict[int, str | None]:
        numbers = [message.number for message in self.told if isinstance(message, HandedOver)]
        assert len(numbers) == len(set(numbers)), "an effect was answered twice"
        return {message.number: message.failure for message in self.told if isinstance(message, HandedOver)}

    @property
    def matched(self) -> list[PipelineMatched]:
        return [message for message in self.told if isinstance(message, PipelineMatched)]


async def until(is_so: Callable[[], object], what: str) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not is_so():  # noqa: ASYNC110 - files have no events
            await asyncio.sleep(0.005)
    assert is_so(), what


@asynccontextmanager
async def bridged(
    root: Path, edge: Edge, topics: Sequence[SparkTopic] = (), **options: Any
) -> AsyncIterator[SparkBridge]:
    settings = {"runs_pipelines": False, "collect_seconds": 0.01, "poll_seconds": 0.01, **options}
    bridge = SparkBridge(SparkOptions(root, **settings))
    await bridge.start(edge.tell, lambda _tenant, _topic: edge.stored, topics)
    try:
        yield bridge
    finally:
        await bridge.stop()


def hand_events(number: int, *events: bytes, tenant: str = OURS, topic: str = TRAFFIC) -> HandEvents:
    ids = [f"{number}-{place}" for place in range(len(events))]
    return HandEvents(number, tenant, topic, 1.5, "sensor", ids, [Raw(event) for event in events])


def subscribe(number: int, name: str, condition: str | None, tenant: str = OURS) -> HandSubscription:
    return HandSubscription(number, tenant, TRAFFIC, name, condition)


async def handed(bridge: SparkBridge, edge: Edge, *effects: HandEvents | HandSubscription) -> None:
    """Hand over, and wait for the answers."""
    for effect in effects:
        bridge.perform(effect)
    await until(lambda: edge.handed.keys() >= {effect.number for effect in effects}, "everything is answered")


def stored_conditions(root: Path) -> dict[Any, str]:
    with open_store(root / "subscriptions.db") as store:
        table = store.active().table
    found = zip(table["subscription_id"].to_pylist(), table["condition"].to_pylist(), strict=True)
    return {key: condition for key, condition in found if not str(key).startswith("m/")}


def run(coroutine: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(coroutine(), 2 * DEADLINE_SECONDS)

    asyncio.run(bounded())


def test_events_come_back_as_they_were_in_the_order_of_handing_over(tmp_path: Path) -> None:
    events = [
        b'{ "speed":  20.50,\n"note": "\\u00e9 \xc3\xa9" }',
        b'{"speed":30}',
        b'{"speed":1e1}',
        b'{"speed":"slow"}',
    ]

    async def scenario() -> None:
        edge = Edge()
        async with bridged(tmp_path, edge) as bridge:
            await handed(bridge, edge, subscribe(1, "slow", "speed < 25"), subscribe(2, "some", "speed IS NOT NULL"))
            await handed(bridge, edge, hand_events(3, *events[:2]))
            await handed(bridge, edge, hand_events(4, *events[2:]))
            SmallPipeline(tmp_path, OURS, TRAFFIC).step(is_reversed=True)
            await until(lambda: edge.matched, "a batch comes back")
        [matched] = edge.matched
        assert (matched.tenant, matched.topic, matched.batch) == (OURS, TRAFFIC, 0)
        assert [(event.id, bytes(event.event), sorted(event.subscriptions)) for event in matched.events] == [
            ("3-0", events[0], ["slow", "some"]),
            ("3-1", events[1], ["some"]),
            ("4-0", events[2], ["slow", "some"]),
        ]
        assert {(event.publisher, event.at) for event in matched.events} == {("sensor", 1.5)}
        assert set(edge.handed.values()) == {None}

    run(scenario)


def test_a_batch_is_given_until_it_is_stored_and_only_then_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        edge = Edge()
        edge.is_storing = False
        async with bridged(tmp_path, edge) as bridge:
            await handed(bridge, edge, subscribe(1, "all", "speed > 0"), hand_events(2, b'{"speed":1}'))
            pipeline = SmallPipeline(tmp_path, OURS, TRAFFIC)
            pipeline.step()
            await handed(bridge, edge, hand_events(3, b'{"speed":2}'))
            pipeline.step()
            await until(lambda: len(edge.matched) == 2, "it is given again")
            assert [message.batch for message in edge.matched] == [0, 0]
            edge.is_storing = True
            await until(lambda: edge.stored == 1, "both are stored")
        assert [message.batch for message in edge.matched][-2:] == [0, 1]

    run(scenario)


def test_a_batch_that_is_stored_is_not_given_after_a_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        before, after = Edge(), Edge()
        async with bridged(tmp_path, before) as bridge:
            await handed(bridge, before, subscribe(1, "all", "speed > 0"), hand_events(2, b'{"speed":1}'))
            pipeline = SmallPipeline(tmp_path, OURS, TRAFFIC)
            pipeline.step()
            await until(lambda: before.stored == 0, "the first is stored")
            await handed(bridge, before, hand_events(3, b'{"speed":2}'))
        pipeline.step()
        after.stored = before.stored
        topic = SparkTopic(OURS, TRAFFIC, {"all": "speed > 0"})
        async with bridged(tmp_path, after, [topic]):
            await until(lambda: after.stored == 1, "the second is given")
        assert [(message.batch, message.events[0].id) for message in after.matched] == [(1, "3-0")]

    run(scenario)


def test_files_go_when_their_batch_is_stored_and_what_may_be_needed_stays(tmp_path: Path) -> None:
    async def scenario() -> None:
        edge = Edge()
        async with bridged(tmp_path, edge) as bridge:
            await handed(bridge, edge, subscribe(1, "fast", "speed > 5"))
            await until(lambda: not bridge.why_not_ready(), "the files are open")
            pipeline = SmallPipeline(tmp_path, OURS, TRAFFIC)
            files, output = pipeline.folder.events, pipeline.folder.output
            for number in range(2, 8):  # of the last, nobody wants an event
                await handed(bridge, edge, hand_events(number, b'{"speed":%d}' % (13 - 2 * number)))
                pipeline.step(faults=int(number == 4))
            await handed(bridge, edge, hand_events(8, b'{"speed":1}'))
            await until(lambda: len(list(files.iterdir())) == 2, "what is matched and taken is gone")
            left = sorted(entry.name for entry in output.iterdir() if entry.name.startswith("batch_id"))
            assert left == ["batch_id=2", "batch_id=5"], "the last, and the one with a fault, stay"
            assert b'"8-0' in max(files.iterdir()).read_bytes().replace(b"\\", b"")

    run(scenario)


def test_what_is_handed_over_together_becomes_one_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        edge = Edge()
        async with bridged(tmp_path, edge, collect_seconds=DEADLINE_SECONDS, file_events_max=100) as bridge:
            await handed(bridge, edge, *(hand_events(number, b"{}") for number in range(100)))
        files = list(TopicFolder(tmp_path, OURS, TRAFFIC).events.iterdir())
        assert len(files) == 1
        assert len(files[0].read_bytes().splitlines()) == 101

    run(scenario)


def test_a_disk_that_fails_is_said_and_nothing_is_half_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        edge = Edge()
        files = TopicFolder(tmp_path, OURS, TRAFFIC).events
        async with bridged(tmp_path, edge) as bridge:
            await handed(bridge, edge, hand_events(1, b'{"speed":1}'))
            for number, fails_at in enumerate((1, 2), start=2):  # the flush of the file, then that of its folder
                with failing_fsync(monkeypatch, fails_at):
                    await handed(bridge, edge, hand_events(number, b'{"speed":1}'))
                assert "space" in (edge.handed[number] or "")
                assert len(list(files.iterdir())) == 1
            await handed(bridge, edge, hand_events(4, b'{"speed":1}'))
        assert edge.handed[4] is None
        assert len(list(files.iterdir())) == 2

    run(scenario)


@contextmanager
def failing_fsync(monkeypatch: pytest.MonkeyPatch, fails_at: int) -> Iterator[None]:
    calls = []

    def fsync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", fsync)
        yield


def test_what_waits_is_bounded_and_what_is_too_much_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        edge = Edge()
        async with bridged(tmp_path, edge, collect_seconds=DEADLINE_SECONDS, waiting_events_max=10) as bridge:
            for number in range(20):
                bridge.perform(hand_events(number, b"{}"))
            assert len(edge.handed) == 10, "the others are refused at once"
        assert [number for number, failure in edge.handed.items() if failure] == list(range(10, 20))
        assert len(edge.handed) == 20, "what waited is handed over at the end"

    run(scenario)


def test_subscriptions_reach_the_store_and_leave_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        edge = Edge()
        async with bridged(tmp_path, edge) as bridge:
            await handed(
                bridge,
                edge,
                subscribe(1, "a", "x > 1"),
                subscribe(2, "b", "x > 2"),
                subscribe(3, "a", "x > 3", tenant="theirs"),
                subscribe(4, "broken", "x >"),
                subscribe(5, "brief", "x > 4"),
                subscribe(6, "brief", None),
                subscribe(7, "never", None),
                subscribe(8, "b", "x > 5"),
            )
            assert stored_conditions(tmp_path) == {"s/ours/a": "x > 1", "s/ours/b": "x > 5", "s/theirs/a": "x > 3"}
            await handed(bridge, edge, subscribe(9, "a", None))
            assert stored_conditions(tmp_path) == {"s/ours/b": "x > 5", "s/theirs/a": "x > 3"}
        assert [number for number, failure in edge.handed.items() if failure] == [4]

    run(scenario)


def test_at_the_start_the_store_is_made_to_hold_what_the_edge_has(tmp_path: Path) -> None:
    with open_store(tmp_path / "subscriptions.db") as store:
        store.add({"s/ours/gone": "x > 1", "s/ours/changed": "x > 2", "s/ours/same": "x > 3"}, now_seconds=1)
        store.add({"somebody's": "x > 4"}, now_seconds=1)

    async def scenario() -> None:
        topic = SparkTopic(OURS, TRAFFIC, {"changed": "x > 5", "same": "x > 3", "new": "x > 6"})
        async with bridged(tmp_path, Edge(), [topic]):
            assert stored_conditions(tmp_path) == {
                "s/ours/changed": "x > 5",
                "s/ours/same": "x > 3",
                "s/ours/new": "x > 6",
                "somebody's": "x > 4",
            }

    run(scenario)


def test_tenants_with_equal_names_for_things_do_not_meet(tmp_path: Path) -> None:
    async def scenario() -> None:
        edge = Edge()
        async with bridged(tmp_path, edge) as bridge:
            for number, tenant in enumerate((OURS, "theirs", "../../evil", "a/b")):
                await handed(bridge, edge, subscribe(2 * number, "all", "speed > 0", tenant=tenant))
                await handed(bridge, edge, hand_events(2 * number + 1, b'{"speed":1}', tenant=tenant))
            SmallPipeline(tmp_path, "../../evil", TRAFFIC).step()
            await until(lambda: edge.matched, "a batch comes back")
        [matched] = edge.matched
        assert matched.tenant == "../../evil"
        assert [(event.id, event.subscriptions) for event in matched.events] == [("5-0", ["all"])]

    run(scenario)
    assert sum(entry.is_dir() for entry in tmp_path.iterdir()) == 4, "each has a folder of its own, and in this one"


def test_a_publisher_cannot_forge_a_mark(tmp_path: Path) -> None:
    async def scenario() -> None:
        edge = Edge()
        for schema in (None, f"speed DOUBLE, {MARK} STRING"):
            schemas = {(OURS, TRAFFIC): schema} if schema else {}
            async with bridged(tmp_path, edge, schemas=schemas) as bridge:
                number = len(edge.handed)
                forged = b'{"speed":1,"_mark":"00000000000000000001.jsonl","_fieldfare":"[]"}'
                await handed(bridge, edge, hand_events(number, forged))
        lines = [
            msgspec.json.decode(line)
            for path in TopicFolder(tmp_path, OURS, TRAFFIC).events.iterdir()
            for line in path.read_bytes().splitlines()
        ]
        assert [line[MARK] for line in lines if line.get(EVENT)] == [None, None]
        assert all(line[EVENT] != "[]" for line in lines if line.get(EVENT))

    run(scenario)


numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(["speed", "Speed", "place", "place.city", "batch_id", "_mark", "_fieldfare", "ä", "a`b", ""])
ranges = st.fixed_dictionaries({"low": st.integers(0, 9) | st.booleans(), "high": st.integers(0, 9) | st.text()})
ARROW = {
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "ARRAY<STRING>": pa.list_(pa.string()),
    "ARRAY<DOUBLE>": pa.list_(pa.float64()),
    "ARRAY<BOOLEAN>": pa.list_(pa.bool_()),
    "STRUCT<low: DOUBLE, high: DOUBLE>": pa.struct([("low", pa.float64()), ("high", pa.float64())]),
}


@given(st.lists(st.dictionaries(names, json_values | ranges, max_size=4), max_size=6))
def test_no_event_is_bad_for_the_pipeline_where_columns_are_learned(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]]
) -> None:
    texts = [msgspec.json.format(msgspec.json.encode(event)) for event in events]
    try:
        publication = Columns().read(hand_events(1, *texts))
    except UnreadableError:
        return  # an edge lets none of these through
    columns = Columns().learned([publication])
    fields = [(name, ARROW[kind]) for name, kind in {**columns.kinds, EVENT: "STRING", MARK: "STRING"}.items()]
    content = b"".join(columns.lines(7, [publication], "mark"))
    path = tmp_path_factory.mktemp("lines") / "lines.jsonl"
    path.write_bytes(content)
    carried: list[Carried] = []
    with path.open("rb") as stream:
        for values, faults in JsonEvents(pa.schema(fields)).read(
            stream, Slice("f", len(content), 0, None, 0, len(texts) + 1)
        ):
            assert not any(faults)
            carried += [msgspec.json.decode(text, type=Carried) for text in values[-2].to_pylist() if text is not None]
    assert [bytes(event.event) for event in carried] == texts
    assert [event.row for event in carried] == list(range(len(texts)))
    assert columns.learned([publication]) is columns


def test_columns_are_remembered_and_of_the_kind_that_came_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        edge = Edge()
        async with bridged(tmp_path, edge) as bridge:
            await handed(bridge, edge, hand_events(1, b'{"speed":1,"place":{"city":"York"}}'))
        async with bridged(tmp_path, edge) as bridge:
            await handed(bridge, edge, hand_events(2, b'{"speed":"fast","is_wet":true}'))
        folder = TopicFolder(tmp_path, OURS, TRAFFIC)
        assert folder.open() == {"speed": "DOUBLE", "place.city": "STRING", "is_wet": "BOOLEAN"}
        [event, _] = max(folder.events.iterdir()).read_bytes().splitlines()
        assert "speed" not in msgspec.json.decode(event)

    run(scenario)


@pytest.mark.parametrize("schema", [None, "n BIGINT, ce STRUCT<type: STRING>"])
def test_what_events_carry_beside_their_attributes_comes_back(tmp_path: Path, schema: str | None) -> None:
    envelope: Envelope = {"specversion": "1.0", "id": "1", "source": "/here", "type": "org.example.count"}
    beside = [Beside(bytes(range(256))), Beside(envelope=envelope), None]

    async def scenario() -> None:
        edge = Edge()
        schemas = {} if schema is None else {(OURS, TRAFFIC): schema}
        async with bridged(tmp_path, edge, schemas=schemas) as bridge:
            condition = "n IN (1, 3) OR ce.type = 'org.example.count'"
            await handed(bridge, edge, subscribe(1, "all", "n > 0"), subscribe(2, "some", condition))
            effect = hand_events(3, b'{"n":1}', b'{"n":2}', b'{"n":3}')
            await handed(bridge, edge, msgspec.structs.replace(effect, beside=beside))
            SmallPipeline(tmp_path, OURS, TRAFFIC).step()
            await until(lambda: edge.matched, "a batch comes back")
        [matched] = edge.matched
        assert [event.beside for event in matched.events] == beside
        assert [sorted(event.subscriptions) for event in matched.events] == [["all", "some"]] * 3

    run(scenario)
