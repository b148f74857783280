"""Keeps secrets of settings out of errors: libraries repeat in their texts what they were given."""

from __future__ import annotations

import os
from collections.abc import Mapping

_SECRET = ("key", "secret", "token", "sas", "password", "credential")  # in the name of a setting
_SECRET_LENGTH_MIN = 4


def without_secrets(text: str, settings: Mapping[str, str]) -> str:
    """A text in which no secret of the settings or of the environment stands."""
    for name, value in [*settings.items(), *os.environ.items()]:
        if len(value) >= _SECRET_LENGTH_MIN and any(word in name.lower() for word in _SECRET):
            text = text.replace(value, "…")
    return text
