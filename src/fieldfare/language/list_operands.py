"""Parts of lists and objects, as expressions."""

from __future__ import annotations

from fieldfare.model import Attribute, Call, Expression, Literal, Section

_LOOKUPS = {"element", "element_at", "field"}


def looked_up(name: str, arguments: tuple[Expression, ...]) -> Expression:
    """A call of a list function; a key of a map or an object is an attribute with a dotted name."""
    match name, arguments:
        case _, (Attribute(attribute), Literal(Section.STRING, str(key))) if name in _LOOKUPS:
            return Attribute(f"{attribute}.{key}")
        case _, (_, Literal(Section.STRING)) if name in _LOOKUPS:
            return Call("field", arguments)
    return Call(name, arguments)
