"""The words of many texts at once, as `words(text)` gives them one by one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from fieldfare.language.list_functions import words_of
from fieldfare.matching.batch import Texts


def words_in(texts: Texts) -> tuple[npt.NDArray[np.int64], Texts]:
    """All words, one after the other, and where each text's begin.

    Texts beyond ASCII are divided by Python first and joined by spaces; then every byte beyond ASCII is part of a word.
    """
    start, end = (int(texts.offsets[0]), int(texts.offsets[-1])) if len(texts) else (0, 0)
    if end > start and int(texts.data[start:end].max()) >= 0x80:
        listed = [texts[number] for number in range(len(texts))]
        texts = Texts.of([text if text.isascii() else " ".join(words_of(text.decode())).encode() for text in listed])
        start, end = 0, len(texts.data)
    data = np.empty(end - start, np.uint8)
    word_ends = np.empty((end - start) // 2 + 2, np.int64)
    text_ends = np.zeros(len(texts) + 1, np.int64)
    words, size = _divide(texts.offsets, texts.data, _LOWER, data, word_ends, text_ends)
    return text_ends, Texts(word_ends[: words + 1], data[:size])


def _lower_table() -> npt.NDArray[np.uint8]:
    """For each byte what it is in a word; 0: it is in none."""
    table = np.zeros(256, np.uint8)
    for byte in range(128):
        character = chr(byte)
        table[byte] = ord(character.lower()) if character.isalnum() else 0
    table[128:] = np.arange(128, 256)
    return table


_LOWER = _lower_table()


@njit(cache=True, nogil=True)
def _divide(offsets, data, lower, out, word_ends, text_ends):  # type: ignore[no-untyped-def]
    words, size = 0, 0
    word_ends[0] = 0
    for text in range(len(offsets) - 1):
        for k in range(offsets[text], offsets[text + 1]):
            byte = lower[data[k]]
            if byte:
                out[size] = byte
                size += 1
            elif size > word_ends[words]:
                words += 1
                word_ends[words] = size
        if size > word_ends[words]:
            words += 1
            word_ends[words] = size
        text_ends[text + 1] = words
    return words, size
