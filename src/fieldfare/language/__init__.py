"""SQL conditions -> boxes: what subscriptions say, in the form that the index matches.

`parse` reads the text with sqlglot into a small `tree`; `leaves` turns each comparison into intervals on an
attribute's axis; `normal_form` multiplies them out into boxes; `shapes` and `columns` do it for a million at once.
"""

from fieldfare.language.compiler import Compiled, compile, compile_many, effort  # noqa: A004 - see there
from fieldfare.language.explain import explain
from fieldfare.language.limits import Limits

__all__ = ["Compiled", "Limits", "compile", "compile_many", "effort", "explain"]
