"""Fixtures of this folder."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
import uvloop
from tests.runtime.link_machines import Run


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def run_story(story: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(story)

    return run_story
