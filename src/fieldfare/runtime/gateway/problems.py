"""What went wrong with a request, as RFC 9457 has it: one body for every error that the gateway answers with.

A problem names what to change. It never repeats a token, an event or a condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from fieldfare.messages import RefusalCode, Refused

MEDIA_TYPE = "application/problem+json"
STATUSES: Mapping[RefusalCode, int] = {
    "invalid": 400,
    "condition": 422,
    "qos": 409,
    "forbidden": 403,
    "unknown": 404,
    "sequence": 409,
    "limit": 429,
    "busy": 503,
    "storage": 507,
}
_RETRY = {429: "5", 503: "1", 507: "30"}  # seconds


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request was not carried out."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    position: int | None = None  # of the error in a condition, counting characters from 0
    expected: int | None = None  # of a gap in a publisher's numbers: the one that is missing


class ProblemError(Exception):
    """A request is answered with a problem. It never leaves the gateway."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        headers: Mapping[str, str] | None = None,
        *,
        position: int | None = None,
        expected: int | None = None,
    ) -> None:
        title = HTTPStatus(status).phrase
        self.problem = Problem(f"urn:fieldfare:problem:{code}", title, status, detail, code, position, expected)
        self.headers = dict(headers or {})
        if status in _RETRY:
            self.headers.setdefault("Retry-After", _RETRY[status])
        super().__init__(detail)

    @classmethod
    def of_refusal(cls, refused: Refused) -> ProblemError:
        """The broker's refusal."""
        if refused.code == "unknown":
            return unknown()
        return cls(STATUSES[refused.code], refused.code, refused.reason, expected=refused.expected)

    def response(self) -> Response:
        """The answer to the client."""
        content = msgspec.json.encode(self.problem)
        return Response(content, self.problem.status, self.headers, media_type=MEDIA_TYPE)


def invalid(detail: str) -> ProblemError:
    """The request itself is wrong."""
    return ProblemError(400, "invalid", detail)


def unavailable(detail: str) -> ProblemError:
    """The same request may be carried out later."""
    return ProblemError(503, "busy", detail)


def unknown() -> ProblemError:
    """What is absent and what is another tenant's: the very same answer."""
    return ProblemError(404, "unknown", "there is no such topic or subscription, or it is not yours")
