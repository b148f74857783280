"""tantivy: subscriptions as its documents, and an event as a query for those that have enough of its words.

A search engine asks how many of a query's words a document has. So a subscription of three words is a document with
three words in the field `words3`, and an event asks for those that have at least three of its words there: all that is
found matches, and nothing is left to be tested.
"""

from __future__ import annotations

import time

import numpy as np
import tantivy

from fieldfare.bench.measuring import Lists, Unchanging
from fieldfare.bench.member_peers import column_of
from fieldfare.bench.workload import Workload

_HEAP_BYTES = 1_000_000_000  # for writing, so that there is one segment


class TantivyEngine(Unchanging):
    """Subscriptions in memory, in one segment."""

    name = "tantivy"

    def __init__(self, workload: Workload, live: int) -> None:
        wanted, events = column_of(workload, live)
        self._events = [list(map(str, np.unique(codes).tolist())) for codes in events]
        began = time.perf_counter()
        rows = [set(row.tolist()) for row in np.split(wanted.codes, wanted.offsets[1:-1])]
        self._sizes = sorted(set(map(len, rows)))
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("id", fast=True)
        for size in self._sizes:
            builder.add_text_field(f"words{size}", tokenizer_name="whitespace", index_option="basic")
        self._schema = builder.build()
        index = tantivy.Index(self._schema)
        writer = index.writer(_HEAP_BYTES, 1)
        for subscription_id, codes in zip(workload.ids[:live].tolist(), rows, strict=True):
            words = {f"words{len(codes)}": " ".join(map(str, codes))}
            writer.add_document(tantivy.Document(id=subscription_id, **words))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        self._searcher = index.searcher()
        self._limit = live
        self.build_seconds = time.perf_counter() - began

    def match(self, start: int, stop: int) -> list[list[int]]:
        """A list of ids for each event."""
        return [self._found(words) for words in self._events[start:stop]]

    def _found(self, words: list[str]) -> list[int]:
        should, schema = tantivy.Occur.Should, self._schema
        enough = []
        for size in self._sizes:
            terms = [(should, tantivy.Query.term_query(schema, f"words{size}", word, "basic")) for word in words]
            if len(terms) >= size:
                enough.append((should, tantivy.Query.boolean_query(terms, size)))
        query = tantivy.Query.boolean_query(enough)
        found = self._searcher.search(query, limit=self._limit, count=False, order_by_field="id")
        return [subscription_id for subscription_id, _ in found.hits]

    def lists(self, answer: list[list[int]]) -> Lists:
        """The answer, as lists of ids."""
        counts = np.array([len(found) for found in answer], np.int64)
        return Lists(counts, np.array([found_id for found in answer for found_id in found], np.int64))
