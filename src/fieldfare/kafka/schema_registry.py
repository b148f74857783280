"""Schemas of messages, by address: the HTTP interface that Confluent's schema registry and its kin share.

A message begins with a zero byte and the id of its schema in four bytes. What an id means never changes, so it is asked
for once in each worker.
"""

from __future__ import annotations

import base64
import json
import struct
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fieldfare.errors import InputError, KafkaTopicError, KafkaUnavailableError, UnknownSchemaError

URL, USER = "schema.registry.url", "schema.registry.basic.auth.user.info"
_HEAD = struct.Struct(">bI")  # a zero, and the id of the schema
_ANSWER_SECONDS = 10.0
_ANSWER_BYTES_MAX = 4 << 20
_MISSING = 404
_PASSING_FROM = 500  # HTTP status codes from here on may pass
_BUSY = 429


class BadMessageError(Exception):
    """A message is no event; the text is the reason."""


class SchemaReference(msgspec.Struct, frozen=True):
    """Another schema that one needs: the name it imports, and where the registry has it."""

    name: str
    subject: str
    version: int


class RegisteredSchema(msgspec.Struct, frozen=True, rename="camel"):
    """A schema as the registry has it."""

    what: str  # which one it is, for people
    schema: str
    schema_type: str = "AVRO"
    references: tuple[SchemaReference, ...] = ()

    def avro(self) -> Any:
        """It, if it is an Avro schema."""
        self.require("AVRO")
        if self.references:
            raise UnknownSchemaError(f"{self.what} refers to other schemas, which is not supported for Avro")
        try:
            return json.loads(self.schema)
        except (ValueError, RecursionError) as error:
            raise UnknownSchemaError(f"{self.what} is no Avro schema: {error}") from error

    def require(self, schema_type: str) -> None:
        """Raise if it is of another type."""
        if self.schema_type != schema_type:
            raise UnknownSchemaError(f"{self.what} is {self.schema_type}, and not {schema_type}: name its format")


def schema_id_of(message: bytes) -> tuple[int, int]:
    """The id of a message's schema, and where what follows it begins."""
    if len(message) < _HEAD.size or message[0]:
        raise BadMessageError("without the id of a schema: it does not begin with a zero and four bytes")
    return _HEAD.unpack_from(message)[1], _HEAD.size


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """Where schemas are. `user` is `name:password`, if it asks for one."""

    url: str
    user: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if urllib.parse.urlsplit(self.url).scheme not in {"http", "https"}:
            raise InputError(f"{URL} is an address such as http://registry:8081, not {self.url!r}")

    @staticmethod
    def taken_from(settings: Mapping[str, str]) -> tuple[SchemaRegistry | None, dict[str, str]]:
        """The registry that some settings name, if any, and the settings that are left for librdkafka."""
        left = {name: value for name, value in settings.items() if name not in {URL, USER}}
        return (SchemaRegistry(settings[URL], settings.get(USER, "")) if URL in settings else None), left

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id."""
        return self._schema(f"schemas/ids/{schema_id}", f"schema {schema_id}")

    def latest_of(self, topic: str) -> RegisteredSchema:
        """The latest schema of a topic's values."""
        return self.version(f"{topic}-value", "latest")

    def version(self, subject: str, version: int | str) -> RegisteredSchema:
        """A version of a subject's schema."""
        return self._schema(f"subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}", f"subject {subject}")

    def _schema(self, path: str, what: str) -> RegisteredSchema:
        answer = self._ask(path, what)
        try:
            return msgspec.convert({"what": f"the {what} at {self.url}", **answer}, RegisteredSchema)
        except msgspec.ValidationError as error:
            raise UnknownSchemaError(f"{self.url}: the {what} cannot be read: {error}") from error

    def _ask(self, path: str, what: str) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.url.rstrip('/')}/{path}")  # noqa: S310 - the scheme was checked
        if self.user:
            request.add_header("Authorization", f"Basic {base64.b64encode(self.user.encode()).decode()}")
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as response:  # noqa: S310 - as above
                answer = json.loads(response.read(_ANSWER_BYTES_MAX))
        except urllib.error.HTTPError as error:
            if error.code == _MISSING:
                raise UnknownSchemaError(f"{self.url} has no {what}") from error
            if error.code == _BUSY or error.code >= _PASSING_FROM:
                raise KafkaUnavailableError(f"{self.url} answers {error.code}: it is tried again") from error
            raise KafkaTopicError(f"{self.url} answers {error.code} {error.reason}: see {URL} and {USER}") from error
        except (OSError, ValueError) as error:
            raise KafkaUnavailableError(f"{self.url}: {error}: it is tried again") from error
        if not isinstance(answer, dict):
            raise KafkaUnavailableError(f"{self.url}: the answer is no JSON object: it is tried again")
        return answer
