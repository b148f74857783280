"""A signed request to S3 (AWS signature, version 4): obstore makes no buckets."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from urllib.parse import urlsplit


def signed(method: str, url: str, access_key: str, secret_key: str) -> tuple[str, dict[str, str]]:
    """A request without a body: its URL and headers."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    parts, body = urlsplit(url), hashlib.sha256(b"").hexdigest()
    headers = {"host": parts.netloc, "x-amz-content-sha256": body, "x-amz-date": now}
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    scope = f"{now[:8]}/us-east-1/s3/aws4_request"
    request = f"{method}\n{parts.path}\n\n{lines}\n{names}\n{body}"
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret_key}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    credential = f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    return url, {**headers, "Authorization": credential}
