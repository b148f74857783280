"""Fieldfare: content-based publish/subscribe for data teams.

A subscriber says what it wants as a SQL condition; an index finds, for every event, every subscription it satisfies.

    index = fieldfare.Index({"cheap": "price < 10"})
    index.match({"price": 9.5})   # ["cheap"]

The layers, each importing only from those below: `cli` and `bench` and `demo`; `pipeline` (Spark) and `files`;
`matching` (the index); `language` (SQL); `boxes`, `model` and `errors`.
"""

from fieldfare.errors import FieldfareError
from fieldfare.language import compile, explain  # noqa: A004 - fieldfare.compile is the name users expect
from fieldfare.matching.index import Index
from fieldfare.model import Range

__all__ = ["FieldfareError", "Index", "Range", "compile", "explain"]
__version__ = "0.1.0"
