"""Settings in sections: a TOML file and what overrides it, read into frozen structs whose types say what is allowed.

Every wrong setting is found, not only the first, and named by its place.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from fieldfare.errors import ConfigError
from fieldfare.messages.wording import in_words


class Given(NamedTuple):
    """A setting as somebody gave it."""

    where: str
    value: Any
    is_text: bool = False  # of an environment variable, where everything is


def read_toml(file: Path) -> dict[str, Any]:
    """What a file says."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # what tomllib raises, and decoding too
        raise ConfigError(f"{file}: not TOML: {error}") from error


_Filled = TypeVar("_Filled", bound=msgspec.Struct)


def filled(
    kind: type[_Filled],
    table: Mapping[str, Given],
    problems: list[str],
    why: Callable[[msgspec.ValidationError], str] = in_words,
) -> _Filled:
    """A section, with its defaults where nothing was given, or nothing right: that goes to the problems."""
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    values = {}
    for key, (where, value, is_text) in table.items():
        if key not in types:
            problems.append(f"{where}: there is no such setting; {one_of(types)}")
            continue
        try:
            found = _items(value) if is_text and _is_list(types[key]) else value
            values[key] = msgspec.convert(found, types[key], strict=not is_text)
        except msgspec.ValidationError as error:
            problems.append(f"{where}: {_allowed(types[key]) or why(error)}")
    return kind(**values)


def one_of(names: Iterable[object]) -> str:
    """What is allowed, in words."""
    return f"allowed: {', '.join(str(name) for name in names)}"


def _is_list(kind: Any) -> bool:
    return isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.VarTupleType)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _allowed(kind: Any) -> str | None:
    """What is allowed, where msgspec itself does not say it."""
    info = msgspec.inspect.type_info(kind)
    return one_of(info.values) if isinstance(info, msgspec.inspect.LiteralType) else None
