"""What commands ask a service over HTTP, where no frame of the protocol tells it."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, TypeVar

import msgspec

from fieldfare.errors import FieldfareError, InputError, NotConnectedError, refusal

if TYPE_CHECKING:
    from fieldfare.commands.connecting import Service

_ANSWER_SECONDS = 10.0
T = TypeVar("T")


def ask(service: Service, path: str, kind: type[T], what: str) -> T:
    """The answer of a service. An error that says why it does not answer, or refuses; `what` it should have been."""
    if not service.url.startswith(("http://", "https://")):
        raise InputError(f"{service.url}: where a broker is for clients begins with http:// or https://")
    token = service.token()
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{service.url.rstrip('/')}{path}", headers=headers)  # noqa: S310 - checked above
    tls = None if service.ca_file is None else ssl.create_default_context(cafile=service.ca_file)
    opener = urllib.request.build_opener(_NoRedirects(), urllib.request.HTTPSHandler(context=tls))
    try:
        with opener.open(request, timeout=_ANSWER_SECONDS) as answer:
            return msgspec.json.decode(answer.read(), type=kind)
    except urllib.error.HTTPError as error:
        raise _refused(service.url, what, error) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NotConnectedError(f"what answers at {service.url} is no {what}") from error
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise NotConnectedError(f"cannot connect to {service.url}: {reason}\nIs the broker running?") from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A broker sends nobody elsewhere, and a token is not for others."""

    def redirect_request(self, *_: object) -> None:
        return None


class _Problem(msgspec.Struct):
    code: str
    detail: str


def _refused(url: str, what: str, error: urllib.error.HTTPError) -> FieldfareError:
    try:
        problem = msgspec.json.decode(error.read(), type=_Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return NotConnectedError(f"what answers at {url} is no {what}: it says {error.code}")
    return refusal(problem.code, f"{url}: {problem.detail}")
