"""The key that signs the calls of a webhook, from the secret of the settings (https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64

_PREFIX = "whsec_"  # the mark of a secret in base64


def signing_key(secret: str | None) -> bytes | None:
    """The bytes of a secret, which is text, or `whsec_` and base64: a ValueError if it is not. None has no key."""
    if secret is None:
        return None
    if secret.startswith(_PREFIX):
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    return secret.encode()
