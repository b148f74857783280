"""What a handler is called with: the annotation of its parameter says how an event is decoded.

A msgspec.Struct, a dataclass, a TypedDict or a plain dict is decoded by msgspec; a pydantic model, where that is
installed, by itself. `Event`, or `Event[Reading]`, is the event with its id, position and publisher around it.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from fieldfare.client.events import Event
from fieldfare.errors import EventError, HandlerError

_Anything = dict[str, Any]
_REASON_CHARACTERS_MAX = 500


class _Model(Protocol):
    """A pydantic model's class, as far as it is needed here."""

    def model_validate_json(self, json: bytes, /) -> Any: ...


class _ModelDecoder:
    """Decodes by a pydantic model. Its errors look like those of msgspec."""

    def __init__(self, model: _Model) -> None:
        self._model = model

    def decode(self, json: Any) -> Any:
        """An instance of the model."""
        try:
            return self._model.model_validate_json(bytes(json))
        except ValueError as error:  # which pydantic's are
            raise msgspec.ValidationError(str(error)) from error


@dataclass(frozen=True)
class Parameter:
    """What a handler is called with."""

    wants_event: bool  # with position and id, in place of its attributes only
    decoder: Any  # with a method `decode`

    def of(self, event: Event[Any]) -> Any:
        """The argument for an event; EventError if it does not have the type that the handler says."""
        try:
            attributes = event.attributes
        except EventError as error:
            raise EventError("*", error.reason[:_REASON_CHARACTERS_MAX]) from error
        return event if self.wants_event else attributes


def parameter_of(function: Callable[..., Any], names: Mapping[str, Any]) -> Parameter:
    """What a function wants to be called with; `names` are those in sight where it was defined."""
    name = getattr(function, "__qualname__", repr(function))
    required = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    if len(required) != 1 or required[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise HandlerError(f"{name}: a handler has one parameter, the event; give others a default")
    try:
        hints = typing.get_type_hints(function, localns=dict(names))
    except NameError as error:
        raise HandlerError(f"{name}: an annotation cannot be read: {error}") from error
    return _parameter(name, hints.get(required[0].name, _Anything))


def _parameter(name: str, wanted: Any) -> Parameter:
    wants_event = wanted is Event or typing.get_origin(wanted) is Event
    if wants_event:
        wanted = typing.get_args(wanted)[0] if typing.get_args(wanted) else _Anything
    if wanted in (Any, dict):
        wanted = _Anything
    if hasattr(wanted, "model_validate_json"):
        return Parameter(wants_event, _ModelDecoder(wanted))
    try:
        decoder = msgspec.json.Decoder(wanted)
        is_foreign = isinstance(msgspec.inspect.type_info(wanted), msgspec.inspect.CustomType)
    except TypeError as error:
        raise HandlerError(f"{name}: events cannot be decoded as {wanted!r}: {error}") from error
    if is_foreign:
        raise HandlerError(f"{name}: events cannot be decoded as {wanted!r}: make it a msgspec.Struct or a dataclass")
    return Parameter(wants_event, decoder)


def published(result: Any) -> list[Any]:
    """What a handler returned, as events to publish: nothing, one, or a list of them."""
    results = [] if result is None else result if isinstance(result, (list, tuple)) else [result]
    return [
        msgspec.Raw(each.model_dump_json().encode()) if hasattr(each, "model_dump_json") else each for each in results
    ]
