from __future__ import annotations

from pathlib import Path

import pytest

from fieldfare.errors import InputError
from fieldfare.kafka.address import KafkaTopic, is_kafka, read_settings
from fieldfare.kafka.starting import parsed
from fieldfare.pipeline.kafka.sink import KafkaSink


def test_an_address_names_brokers_and_a_topic() -> None:
    topic = KafkaTopic.parse("kafka://a.example:9092,[::1]:9093/traffic.events-1")
    assert (topic.brokers, topic.name) == ("a.example:9092,[::1]:9093", "traffic.events-1")
    assert str(topic) == "kafka://a.example:9092,[::1]:9093/traffic.events-1"
    assert topic.beside("-commits").name == "traffic.events-1-commits"
    assert is_kafka(str(topic))
    assert not is_kafka("kafka/folder")


@pytest.mark.parametrize(
    "url",
    [
        "kafka://host/topic",
        "kafka://host:9092",
        "kafka://host:9092/",
        "kafka://host:9092/a/b",
        "kafka://host:9092/..",
        "kafka://:9092/topic",
        "kafka://host:9092,/topic",
        f"kafka://host:9092/{'x' * 250}",
    ],
)
def test_a_wrong_address_is_refused(url: str) -> None:
    with pytest.raises(InputError):
        KafkaTopic.parse(url)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(InputError) as caught:
        KafkaTopic.parse("kafka://me:hunter2@host:9092/topic")
    assert "hunter2" not in str(caught.value)


def test_settings_come_from_a_file_and_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("# login\n\nsasl.password = hunter2=x\nsecurity.protocol=SASL_SSL\n")
    topic = KafkaTopic("h:1", "t", read_settings(tmp_path / "k"))
    assert topic.settings == {"sasl.password": "hunter2=x", "security.protocol": "SASL_SSL"}
    assert "hunter2" not in repr(topic) + str(topic)


@pytest.mark.parametrize("text", ["security.protocol", "transactional.id = mine", "isolation.level=read_uncommitted"])
def test_settings_that_are_wrong_or_ours_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "k").write_text(text)
    with pytest.raises(InputError):
        KafkaTopic("h:1", "t", read_settings(tmp_path / "k"))


def test_a_limit_that_no_message_fits_is_refused() -> None:
    with pytest.raises(InputError):
        KafkaSink(KafkaTopic("h:1", "t"), message_bytes_max=10)


def test_starting_points() -> None:
    assert parsed("latest") == "latest"
    assert parsed("0:12, 1:0") == {0: 12, 1: 0}
    assert parsed("2026-01-31T12:00:00Z") == parsed("2026-01-31T12:00:00")


@pytest.mark.parametrize("text", ["", "newest", "0:", "0:-1", "0:1:2", "2026-13-01"])
def test_a_wrong_starting_point_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parsed(text)
