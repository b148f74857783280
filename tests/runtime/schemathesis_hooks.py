"""What a schema cannot say, for schemathesis: which texts are conditions, and what goes with what."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import strategies as st

_conditions = st.sampled_from(
    ["TRUE", "speed < 25", "road IN ('A10', 'A12') AND speed >= 10.5", "NOT is_dry OR lane IS NULL", "a.b LIKE 'x%'"]
)
schemathesis.openapi.format("fieldfare-condition", _conditions)
schemathesis.openapi.format("fieldfare-webhook", st.just("http://127.0.0.1:9/hook"))


@schemathesis.hook
def before_call(_context: Any, case: Any, _options: Any) -> None:
    """Leave out what this service cannot do, or what no schema can exclude; the other tests have it."""
    if isinstance(case.query, dict) and _is_long(case.query.get("wait_seconds")):
        case.query["wait_seconds"] = 0.1  # polls would use up the time
    if isinstance(case.body, dict) and case.body.get("matching") == "spark":
        case.body["matching"] = "edge"  # it has no Spark
    if case.path.endswith("/change") and isinstance(case.body, dict):
        case.body.pop("webhook", None)  # depends on whether it has one
        if isinstance(case.body.get("consuming"), dict):
            case.body["consuming"].pop("is_shared", None)  # the same
    if isinstance(case.body, dict) and isinstance(start := case.body.get("start"), dict):
        start.pop("log", None)  # a position belongs to the log that it came from
    if case.path.endswith("/events") and case.headers:
        case.headers.pop("Idempotency-Key", None)  # of one event without an id of its own
        if "Fieldfare-Publisher" not in case.headers:
            case.headers.pop("Fieldfare-Sequence", None)
        if "Fieldfare-Event" in case.headers:
            case.headers["Fieldfare-Event"] = "{}"  # JSON in a header


def _is_long(wait_seconds: Any) -> bool:
    try:
        return 0.1 < float(wait_seconds) <= 60
    except (TypeError, ValueError):
        return False
