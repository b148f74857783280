"""The example alerts and the dashboard: every metric in them is a real service's, and Prometheus can read them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.installing import install_in_ci, missing
from tests.runtime.processes import ServiceProcess

MONITORING = Path(__file__).parents[2] / "docs" / "monitoring"
ALERTS = MONITORING / "fieldfare_alerts.yml"
DASHBOARD = MONITORING / "fieldfare_dashboard.json"
_metric = re.compile(r"\bfieldfare_[a-z_]+\b(?!\.)")
_MANY = 130


def names_in(text: str) -> set[str]:
    return set(_metric.findall(text))


def expressions() -> list[str]:
    """All queries of the dashboard, for any service."""
    dashboard = json.loads(DASHBOARD.read_text())
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return [each.replace("$instance", ".*") for each in found]


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What a service says in which much goes on: some are behind, more than there are metrics for."""
    data = tmp_path_factory.mktemp("monitored") / "data"
    variables = {"FIELDFARE_SPARK_ENABLED": "true", "FIELDFARE_SPARK_RUNS_PIPELINES": "false"}
    with (
        ServiceProcess(data, FIELDFARE_LIMITS_METRICS_SUBSCRIPTIONS_MAX="100", **variables) as service,
        httpx.Client(base_url=service.url, timeout=30) as http,
    ):
        for number in range(_MANY):
            body = {"topic": "traffic", "condition": f"speed >= {number}", "name": f"s{number}"}
            assert http.post("/v1/subscriptions", json=body).status_code == 201
        events = [{"speed": speed} for speed in range(200)]
        assert http.post("/v1/topics/traffic/events", json=events).status_code == 200
        assert http.put("/v1/topics/bulk", json={"matching": "spark"}).status_code == 200
        assert http.post("/v1/topics/bulk/events", json=events[:7]).status_code == 200
        assert http.get("/v1/subscriptions/none").status_code == 404
        assert http.put("/v1/topics/*", json={}).status_code == 400
        assert http.post("/v1/subscriptions", json={"topic": "traffic", "condition": "speed <"}).status_code == 422
        pipelines = http.get("/v1/pipelines").json()["pipelines"]
        assert [(each["topic"], each["waiting_events"], each["waiting_files"]) for each in pipelines] == [
            ("bulk", 7, 1)
        ]
        yield http.get("/metrics").text


def families(scraped: str) -> set[str]:
    return {line.split(" ")[2] for line in scraped.splitlines() if line.startswith("# TYPE ")}


def known(scraped: str) -> set[str]:
    """The names that a query may use."""
    found = families(scraped)
    return found | {f"{name}_{part}" for name in found for part in ("sum", "count")}


def test_every_metric_in_the_alerts_and_the_dashboard_exists(scraped: str) -> None:
    files = {"fieldfare_alerts"}  # its own name is in its first lines
    used = names_in(ALERTS.read_text()) - files | {name for each in expressions() for name in names_in(each)}
    assert len(used) > 20
    assert used - known(scraped) == set()
    assert "fieldfare_nothing" not in known(scraped)


def test_numbers_of_their_own_have_only_those_that_are_furthest_behind(scraped: str) -> None:
    behind = re.findall(
        r'^fieldfare_subscription_behind_events{.*subscription="(s\d+)",.*} (\S+)$', scraped, re.MULTILINE
    )
    assert {name: float(value) for name, value in behind} == {f"s{number}": 200.0 - number for number in range(100)}
    total = sum(200 - number for number in range(_MANY))
    assert f"fieldfare_behind_events {total:.1f}" in scraped or f"fieldfare_behind_events {float(total)}" in scraped
    assert f"fieldfare_subscriptions_behind {float(_MANY)}" in scraped
    assert f"fieldfare_subscriptions_untaken {float(_MANY)}" in scraped


def test_topics_and_pipelines_have_numbers(scraped: str) -> None:
    assert re.search(r'^fieldfare_topic_events_total{.*topic="traffic"} 200.0$', scraped, re.MULTILINE)
    assert re.search(r'^fieldfare_topic_kept_bytes{.*topic="traffic"} [1-9]', scraped, re.MULTILINE)
    assert re.search(r'^fieldfare_topic_oldest_seconds{.*topic="traffic"} ', scraped, re.MULTILINE)
    assert re.search(r'^fieldfare_pipeline_waiting_events{.*topic="bulk"} 7.0$', scraped, re.MULTILINE)
    assert re.search(r"^fieldfare_start_time_seconds 1", scraped, re.MULTILINE)


def test_the_dashboard_is_one() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids) > 10
    assert all(panel["title"] and panel["targets"] for panel in dashboard["panels"])
    places = [tuple(panel["gridPos"][side] for side in "xywh") for panel in dashboard["panels"]]
    assert all(x + w <= 24 for x, _, w, _ in places)


def test_prometheus_reads_the_alerts_and_the_queries(tmp_path: Path) -> None:
    install_in_ci("prometheus")
    promtool = shutil.which("promtool")
    if promtool is None:
        missing("promtool is not installed: apt-get install prometheus")
    queries = {f"query_{number}": each for number, each in enumerate(expressions())}
    rules = [{"record": name, "expr": each} for name, each in queries.items()]
    recorded = tmp_path / "queries.yml"
    recorded.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))  # JSON is YAML
    for file in (ALERTS, recorded):
        ended = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    recorded.write_text(recorded.read_text().replace("topk(10,", "topk(10,,"))
    assert subprocess.run([promtool, "check", "rules", recorded], capture_output=True, check=False).returncode != 0
