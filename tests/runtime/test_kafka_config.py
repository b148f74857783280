"""What the settings say of Kafka: files beside them, links that make no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldfare.errors import ConfigError
from fieldfare.runtime.config import load
from fieldfare.runtime.kafka.options import InflowOptions, OutflowOptions
from fieldfare.runtime.startup import check_startup, kafka_links

pytest.importorskip("confluent_kafka")


def written(folder: Path, text: str) -> Path:
    file = folder / "service.toml"
    file.write_text(f'server.port = 0\nserver.data = "data"\n{text}')
    return file


def test_links_of_a_topic(tmp_path: Path) -> None:
    (tmp_path / "kafka.properties").write_text("security.protocol = SSL\nschema.registry.url = http://r:8081\n")
    text = """
[[topics.traffic.kafka]]
direction = "in"
topic = "kafka://a:9092,b:9092/readings"
format = "avro"
settings = "kafka.properties"
[[topics.traffic.kafka]]
direction = "out"
topic = "kafka://a:9092/slow"
where = "speed < 25"
[topics.other.kafka]
direction = "out"
topic = "kafka://a:9092/slow"
"""
    settings = load(written(tmp_path, text), {})
    check_startup(settings)
    problems: list[str] = []
    feed, drain, other = kafka_links(settings, problems)
    assert not problems
    assert isinstance(feed, InflowOptions)
    assert isinstance(drain, OutflowOptions)
    assert isinstance(other, OutflowOptions)
    assert (feed.source.brokers, feed.source.settings) == ("a:9092,b:9092", {"security.protocol": "SSL"})
    assert (feed.quarantine, feed.registry and feed.registry.url) == ("traffic-quarantine", "http://r:8081")
    assert (drain.condition, drain.subscription) == ("speed < 25", "kafka.traffic.slow")
    assert (other.condition, other.transactional_id) == ("TRUE", "fieldfare-default-kafka.other.slow")


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ('direction = "in"\ntopic = "kafka://h/t"', "host:port"),
        ('direction = "in"\ntopic = "kafka://h:1/t"\nstarting = "tomorrow"', "no starting point"),
        ('direction = "in"\ntopic = "kafka://h:1/t"\nformat = "avro"', "schema registry"),
        ('direction = "in"\ntopic = "kafka://h:1/t"\nformat = "xml"', "allowed|Invalid enum"),
        ('direction = "in"\ntopic = "kafka://h:1/t"\nsettings = "missing"', "cannot be read"),
        ('direction = "out"\ntopic = "kafka://h:1/t"\nwhere = "speed <"', "speed <"),
        ('direction = "up"\ntopic = "kafka://h:1/t"', "direction"),
        ('direction = "out"\ntopic = "kafka://h:1/t"\nkeys = "a"', "keys"),
    ],
)
def test_links_that_make_no_sense_are_refused(tmp_path: Path, link: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_startup(load(written(tmp_path, f"[topics.traffic.kafka]\n{link}\n"), {}))


def test_a_topic_that_keeps_nothing_cannot_be_fed_and_no_link_is_there_twice(tmp_path: Path) -> None:
    link = '[[topics.traffic.kafka]]\ndirection = "in"\ntopic = "kafka://h:1/t"\n'
    loose = '[topics.traffic]\nreliability = "best_effort"\ndurability = "volatile"\n'
    with pytest.raises(ConfigError, match="lost in a crash"):
        check_startup(load(written(tmp_path, loose + link), {}))
    with pytest.raises(ConfigError, match="there twice"):
        check_startup(load(written(tmp_path, link + link), {}))
