"""Calls about places, by the names that Sedona has for them -> our tree.

A point is written ST_Point(x, y) and a polygon ST_GeomFromText('POLYGON((…))'); neither is a value of its own, so they
are read together with the call that they stand in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from fieldfare.errors import ConditionSyntaxError
from fieldfare.language import tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fieldfare.language.calls import Reader

_POLYGON_FIRST = {"st_covers": "st_covers", "st_contains": "st_contains", "st_intersects": "st_covers"}
_POINT_FIRST = {"st_coveredby": "st_covers", "st_within": "st_contains"}
_POINTS = {"st_point", "st_makepoint"}
_TEXTS = {"st_geomfromtext", "st_geomfromwkt"}
_BOXES = {"st_polygonfromenvelope", "st_makeenvelope"}
PLACE_TESTS = frozenset({*_POLYGON_FIRST, *_POINT_FIRST, "st_distancesphere"})
PARTS_OF_PLACES = frozenset({*_POINTS, *_TEXTS, *_BOXES})
PLACE_NAMES = PLACE_TESTS | PARTS_OF_PLACES


def place_condition(name: str, nodes: Sequence[exp.Expression], reader: Reader) -> tree.Node | None:
    """A point in a box as comparisons; None where it is another call."""
    if name not in PLACE_TESTS or name == "st_distancesphere":
        return None
    function, polygon, point = _sides(name, nodes)
    if _name_of(polygon) not in _BOXES:
        return None
    west, south, east, north = (reader.operand(node, 1) for node in _parts(polygon, 4, reader))
    x, y = _point(point, reader, 1)
    above, below = (">=", "<=") if function == "st_covers" else (">", "<")
    comparisons = [(above, x, west), (below, x, east), (above, y, south), (below, y, north)]
    return tree.And(tuple(tree.Compare(*comparison) for comparison in comparisons))


def place_operand(name: str, nodes: Sequence[exp.Expression], reader: Reader, depth: int) -> tree.Operand:
    """A test of a place, or a distance, as a call of numbers and a polygon's text."""
    position = reader.start(nodes[0])
    if name in PARTS_OF_PLACES:
        reason = f"{name} stands only inside ST_Covers, ST_Contains, ST_Intersects, ST_Within, ST_CoveredBy"
        raise ConditionSyntaxError(f"{reason} and ST_DistanceSphere", reader.text, position)
    if name == "st_distancesphere":
        points = [operand for node in nodes for operand in _point(node, reader, depth)]
        return tree.Call(name, tuple(points), position)
    in_box = place_condition(name, nodes, reader)
    if in_box is not None:
        return tree.operand_of(in_box)
    function, polygon, point = _sides(name, nodes)
    text = reader.operand(_parts(polygon, 1, reader)[0], depth + 1) if _name_of(polygon) in _TEXTS else None
    if not isinstance(text, tree.Slot) or text.kind:
        reason = f"{name} needs a polygon, written ST_GeomFromText('POLYGON((…))') or ST_PolygonFromEnvelope(…)"
        raise ConditionSyntaxError(reason, reader.text, reader.start(polygon))
    return tree.Call(function, (text, *_point(point, reader, depth)), position)


def _sides(name: str, nodes: Sequence[exp.Expression]) -> tuple[str, exp.Expression, exp.Expression]:
    """The function, the polygon and the point; what intersects may stand either way round."""
    first, second = nodes
    if name in _POINT_FIRST or (name == "st_intersects" and _name_of(first) in _POINTS):
        return {**_POLYGON_FIRST, **_POINT_FIRST}[name], second, first
    return _POLYGON_FIRST[name], first, second


def _name_of(node: exp.Expression) -> str:
    while isinstance(node, exp.Paren):
        node = node.this
    return str(node.this).lower() if isinstance(node, exp.Anonymous) else ""


def _parts(node: exp.Expression, count: int, reader: Reader) -> Sequence[exp.Expression]:
    while isinstance(node, exp.Paren):
        node = node.this
    if len(node.expressions) != count:
        reason = f"{_name_of(node)} takes {count} argument{'s' * (count > 1)}"
        raise ConditionSyntaxError(reason, reader.text, reader.start(node))
    parts: Sequence[exp.Expression] = node.expressions
    return parts


def _point(node: exp.Expression, reader: Reader, depth: int) -> tuple[tree.Operand, tree.Operand]:
    if _name_of(node) not in _POINTS:
        reason = "a point is written ST_Point(longitude, latitude)"
        raise ConditionSyntaxError(reason, reader.text, reader.start(node))
    x, y = (reader.operand(part, depth + 1) for part in _parts(node, 2, reader))
    return x, y
