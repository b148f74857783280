"""docs/conditions.md is what the code does: each name that may be called, with an example, and how it is indexed."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from tests.docs.pages import ROOT

from fieldfare.language import compile, explain  # noqa: A004
from fieldfare.language.callable_names import CALLABLE
from fieldfare.language.expression_text import expression_text
from fieldfare.language.expressions import functions_in
from fieldfare.model import Condition, Derived

_PAGE = (ROOT / "docs" / "conditions.md").read_text(encoding="utf-8")
_CELLS = re.compile(r"(?<!\\)\|")
_CODE = re.compile(r"(``?)((?:(?!\1).)+)\1")
# What the last column says, and the lines of `explain` that it means.
_KINDS = {"interval": "interval", "box": "interval", "derived axis": "derived axis", "test": "test", "member": "member"}


@dataclass(frozen=True)
class Row:
    """A row of a table that shows examples."""

    names: str
    examples: tuple[str, ...]
    indexed: str

    @property
    def kinds(self) -> set[str]:
        """How the row says that its examples are indexed; empty where it points to something else."""
        return (
            set()
            if self.indexed.startswith("as the")
            else {kind for word, kind in _KINDS.items() if word in self.indexed}
        )


def _rows() -> list[Row]:
    rows = []
    has_column = in_table = False
    for line in _PAGE.splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in _CELLS.split(line)[1:-1]]
        if len(cells) != 3:
            in_table = False
        elif cells[1] == "example":
            in_table, has_column = True, cells[2] == "indexed"
        elif in_table and set(cells[0]) != {"-"}:
            examples = tuple(found[2] for found in _CODE.finditer(cells[1]))
            indexed = cells[2] if has_column or "interval" in cells[2] or "boxes" in cells[2] else "derived axis"
            rows.append(Row(cells[0], examples, indexed))
    return rows


ROWS = _rows()
EXAMPLES = [example for row in ROWS for example in row.examples]


def _found(condition: Condition) -> set[str]:
    """The kinds of lines by which `explain` shows the boxes."""
    lines = [line.strip() for line in explain(condition).splitlines()[2:] if line.startswith("  ")]
    starts = {line.split(":")[0] for line in lines}
    return {start if start in {"derived axis", "test", "member"} else "interval" for start in starts}


def _uses(name: str) -> list[str]:
    """Examples that call a name, or that call another name of its row and may call this one in its place."""
    found = [example for example in EXAMPLES if re.search(rf"\b{name}\b", example.lower())]
    if found:
        return found
    for row in ROWS:
        names = {word for code in _CODE.finditer(row.names) for word in re.findall(r"\w+", code[2].lower())}
        if name in names:
            others = "|".join(names & CALLABLE)
            return [re.sub(rf"\b({others})\(", f"{name}(", row.examples[0], flags=re.IGNORECASE)]
    return []


@pytest.mark.parametrize("name", sorted(CALLABLE))
def test_every_name_that_may_be_called_is_on_the_page_with_an_example(name: str) -> None:
    uses = _uses(name)
    assert uses, f"{name} is not on the page"
    assert compile(uses[0]).boxes


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_compile(example: str) -> None:
    assert compile(example).boxes


@pytest.mark.parametrize("example", EXAMPLES)
def test_what_explain_writes_of_an_expression_means_the_same(example: str) -> None:
    for axis in {axis for box in compile(example).boxes for axis in box.derived}:
        text = expression_text(axis.expression)
        if functions_in(axis.expression) & {"ip", "mirrored"}:  # written with their interval: ip_in, LIKE '%end'
            continue
        again = compile(f"({text}) IS NOT NULL")
        axes: set[Derived] = {found for box in again.boxes for found in box.derived}
        assert axes == {axis}, text


@pytest.mark.parametrize("row", [row for row in ROWS if row.kinds], ids=lambda row: row.names)
def test_the_column_is_what_explain_says(row: Row) -> None:
    found = set().union(*(_found(compile(example)) for example in row.examples))
    assert found == row.kinds
