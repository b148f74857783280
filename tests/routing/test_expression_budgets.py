"""The budget of derived axes is a topic's own: what one tenant's conditions compute costs no event of another."""

from __future__ import annotations

from typing import Any

import pytest
from tests.routing.harness import Harness

from fieldfare.language.costs import DERIVED_AXES_MAX
from fieldfare.language.expression_text import expression_text
from fieldfare.matching import evaluation, masks
from fieldfare.messages import Identity, Right

RIGHTS: dict[Right, tuple[str, ...]] = {"publish": ("*",), "subscribe": ("*",)}


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The expressions that are computed, for a batch or for single events."""
    found: list[str] = []
    for module, name in ((evaluation, "computed_for"), (masks, "cut_of")):
        original = getattr(module, name)

        def noted(axis: Any, *rest: Any, original: Any = original) -> Any:
            found.append(expression_text(axis.expression))
            return original(axis, *rest)

        monkeypatch.setattr(module, name, noted)
    return found


@pytest.mark.parametrize("events", [1, 100])
def test_the_expressions_of_a_topic_cost_another_topic_nothing(events: int, computed: list[str]) -> None:
    harness, clients = Harness(), {}
    for tenant, topic, count in (("a", "news", 2 * DERIVED_AXES_MAX), ("a", "other", 1), ("b", "news", 1)):
        client = clients[tenant, topic] = harness.connect(Identity(tenant, RIGHTS))
        for number in range(count):
            client.subscribe(topic, f"length(concat(s, '{tenant} {topic} {number}')) > 0")
    for (tenant, topic), client in clients.items():
        computed.clear()
        client.publish(topic, *({"s": str(number)} for number in range(events)))
        assert computed
        assert all(f"'{tenant} {topic} " in text for text in computed)
