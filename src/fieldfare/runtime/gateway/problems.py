"""What went wrong with a request, as RFC 9457 has it: one body for every error that the gateway answers with.

A problem names what to change. It never repeats a token, an event or a condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus

import msgspec
from msgspec.structs import replace
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
    "moved": 421,
    "full": 503,
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
    home: str | None = None  # of a subscription that another edge has: the URL of that edge
    edges: tuple[str, ...] = ()  # of an edge that is full: the URLs of others


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
        if refused.code == "full":
            return full(refused.edges)
        error = cls(STATUSES[refused.code], refused.code, refused.reason, expected=refused.expected)
        error.problem = replace(error.problem, home=refused.home)
        return error

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


def full(edges: Sequence[str]) -> ProblemError:
    """There is no place for another client here, but perhaps at other edges."""
    if not edges:
        return unavailable("there are too many connections now")
    error = ProblemError(503, "full", "there are too many connections now: use another of these edges")
    error.problem = replace(error.problem, edges=tuple(edges))
    return error


def unknown() -> ProblemError:
    """What is absent and what is another tenant's: the very same answer."""
    return ProblemError(404, "unknown", "there is no such topic or subscription, or it is not yours")
