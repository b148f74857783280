"""RLIKE: whether a regular expression finds something in a text, in time linear in the text, whatever the pattern.

Patterns mean what they mean in Java, and so in Spark; RE2 (package google-re2, extra `regex`) does the work.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from fieldfare.language.java_patterns import JavaPatternError, translated

_MEMORY_MAX = 8 << 20  # of one pattern, compiled
_LINE_ENDS = ("\r\n", "\n", "\r", "\x85", "\u2028", "\u2029")  # the longest first
MISSING = "a regular expression needs RE2: pip install 'fieldfare[regex]', or use LIKE, startswith or contains"

Finder = Callable[[str], bool]


def found(text: str, pattern: str) -> bool:
    """Whether a pattern finds something in a text."""
    return finder(pattern)(text)


@functools.lru_cache(maxsize=4_096)
def finder(pattern: str) -> Finder:
    """The search for a pattern; a JavaPatternError where it is none, a ModuleNotFoundError without RE2."""
    forms = translated(pattern)
    whole = _compiled(forms.whole)
    if forms.before_line_end is None:
        return lambda text: whole(text.encode())
    early = _compiled(forms.before_line_end)

    def search(text: str) -> bool:
        if whole(text.encode()):
            return True
        for ending in _LINE_ENDS:
            if text.endswith(ending):
                return early(text[: -len(ending)].encode())
        return False

    return search


def _compiled(pattern: str) -> Callable[[bytes], bool]:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MEMORY_MAX
    try:
        search = re2.compile(pattern.encode(), options).search
    except re2.error as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise JavaPatternError(f"not a pattern that RE2 takes: {reason}", 0) from error
    return lambda text: search(text) is not None
