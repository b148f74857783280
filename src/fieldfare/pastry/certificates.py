"""Admission by certificates: a node's place follows from a name that the deployment's authority has signed.

A certificate is X.509, with an elliptic key (P-256) and the node's name in a URI, `urn:fieldfare:peer:NAME`. The id is
a hash of the authority's key and the name, so a node has the place that its certificate gives it, and no other. Where
`PeerAuthority` issues certificates it adds a random part to every name: then not even whoever asks for a certificate
can choose a place. What a certificate proves is used by `sealing`.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from fieldfare.errors import LinkSecurityError, MissingDependencyError
from fieldfare.pastry.admission import Ids
from fieldfare.pastry.ids import ID_BYTES
from fieldfare.pastry.ports import NodeId

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_pem_private_key,
    )
except ImportError as missing:
    raise MissingDependencyError(
        "certificates of peers need the package cryptography: pip install 'fieldfare[service]'"
    ) from missing

PEER_URI = "urn:fieldfare:peer:"
CERTIFICATE_BYTES_MAX = 4_000
KEY_ID_BYTES = 8
_NAME_MAX = 200  # as in frames
_RANDOM_BYTES = 8


class CertificateRefusedError(LinkSecurityError):
    """A certificate is not one of a member of this deployment; says why."""


@dataclass(frozen=True, slots=True)
class Member:
    """Who a certificate is about."""

    name: str
    public_key: ec.EllipticCurvePublicKey
    key_id: bytes  # what sealed packets name it by
    valid_from: float
    valid_until: float


@dataclass(frozen=True, slots=True)
class PeerFiles:
    """PEM files: the certificate of the deployment's authority, this peer's own certificate, and its key."""

    authority: Path
    certificate: Path
    key: Path


class CertifiedGroup(Ids):
    """All who have a certificate of one authority. Nodes of one process may share it."""

    def __init__(self, authority_pem: bytes) -> None:
        super().__init__()
        try:
            self._authority = x509.load_pem_x509_certificate(authority_pem)
            spki = self._authority.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        except ValueError as error:
            raise LinkSecurityError(f"the authority's certificate cannot be read: {error}") from error
        self._prefix = hashlib.sha256(b"fieldfare pastry: the ids of nodes" + spki).digest()

    def _make_id(self, name: str) -> NodeId:
        hashed = hashlib.sha256(self._prefix + name.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(hashed[:ID_BYTES], "big")

    def member(self, der: bytes, now: float) -> Member:
        """Who a certificate is about; a CertificateRefusedError if it is not one of a member, now."""
        if len(der) > CERTIFICATE_BYTES_MAX:
            raise CertificateRefusedError("it is too large")
        try:
            certificate = x509.load_der_x509_certificate(der)
            certificate.verify_directly_issued_by(self._authority)
            member = _member_of(certificate)
        except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound, x509.DuplicateExtension) as error:
            raise CertificateRefusedError(f"it is not signed by the authority, or cannot be read: {error}") from error
        if not member.valid_from <= now < member.valid_until:
            raise CertificateRefusedError("it is not valid now")
        return member


def _member_of(certificate: x509.Certificate) -> Member:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    uris = [uri for uri in names.get_values_for_type(x509.UniformResourceIdentifier) if uri.startswith(PEER_URI)]
    public_key = certificate.public_key()
    if len(uris) != 1 or not 0 < len(uris[0]) - len(PEER_URI) <= _NAME_MAX:
        raise CertificateRefusedError(f"it names no peer: its URI must be {PEER_URI}NAME")
    if not isinstance(public_key, ec.EllipticCurvePublicKey) or not isinstance(public_key.curve, ec.SECP256R1):
        raise CertificateRefusedError("its key is not an elliptic one on the curve P-256 (prime256v1)")
    point = public_key.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    return Member(
        uris[0].removeprefix(PEER_URI),
        public_key,
        hashlib.sha256(point).digest()[:KEY_ID_BYTES],
        certificate.not_valid_before_utc.timestamp(),
        certificate.not_valid_after_utc.timestamp(),
    )


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a node proves itself with."""

    group: CertifiedGroup
    member: Member
    certificate: bytes  # DER
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def load(cls, files: PeerFiles, now: float, group: CertifiedGroup | None = None) -> Self:
        """Read the files of a peer; a LinkSecurityError if they do not fit together, or are not valid now."""
        try:
            group = group or CertifiedGroup(files.authority.read_bytes())
            der = x509.load_pem_x509_certificate(files.certificate.read_bytes()).public_bytes(Encoding.DER)
            key = load_pem_private_key(files.key.read_bytes(), None)
        except OSError as error:
            raise LinkSecurityError(f"{error.filename}: cannot be read: {error.strerror}") from error
        except (ValueError, TypeError) as error:
            raise LinkSecurityError(f"{files.certificate} or {files.key}: cannot be read: {error}") from error
        try:
            member = group.member(der, now)
        except CertificateRefusedError as error:
            raise LinkSecurityError(f"{files.certificate}: {error}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != member.public_key:
            raise LinkSecurityError(f"{files.key}: is not the key of {files.certificate}")
        return cls(group, member, der, key)


class PeerAuthority:
    """Issues the certificates of a deployment's peers. Its key is in `authority.key`: whoever has it lets peers in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.certificate_file, self._key_file = folder / "authority.crt", folder / "authority.key"

    def create(self, now: float, days: int = 3650) -> None:
        """Make an authority; nothing may be in its place yet."""
        self._folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Fieldfare peers")])
        builder = _builder(name, name, key.public_key(), now, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        _write_new(self._key_file, _pem(key), 0o600)
        _write_new(self.certificate_file, builder.sign(key, SHA256()).public_bytes(Encoding.PEM), 0o644)

    def issue(self, name: str, now: float, days: int = 365, *, is_renewal: bool = False) -> PeerFiles:
        """A key and a certificate for a new member, in files of its name, to which a random part is added.

        To renew a certificate, so that its peer keeps its place, give the whole name.
        """
        if not is_renewal:
            name = f"{name}~{secrets.token_hex(_RANDOM_BYTES)}"
        if not 0 < len(name) <= _NAME_MAX or not name.replace("~", "").replace("-", "").replace("_", "").isalnum():
            raise LinkSecurityError("a peer's name has letters, digits, - and _ only, and 180 of them at most")
        try:
            authority = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())
            signer = load_pem_private_key(self._key_file.read_bytes(), None)
        except (OSError, ValueError) as error:
            raise LinkSecurityError(f"{self._folder}: holds no authority that can be read: {error}") from error
        if not isinstance(signer, ec.EllipticCurvePrivateKey):
            raise LinkSecurityError(f"{self._key_file}: is not an elliptic key")
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name[:64])])
        uris = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(PEER_URI + name)])
        builder = _builder(subject, authority.subject, key.public_key(), now, days).add_extension(uris, critical=False)
        files = PeerFiles(self.certificate_file, self._folder / f"{name}.crt", self._folder / f"{name}.key")
        if is_renewal:
            files.key.unlink(missing_ok=True)
            files.certificate.unlink(missing_ok=True)
        _write_new(files.key, _pem(key), 0o600)
        _write_new(files.certificate, builder.sign(signer, SHA256()).public_bytes(Encoding.PEM), 0o644)
        return files


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: float, days: int
) -> x509.CertificateBuilder:
    at = datetime.fromtimestamp(now, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - timedelta(hours=1))  # clocks differ
        .not_valid_after(at + timedelta(days=days))
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write_new(path: Path, data: bytes, mode: int) -> None:
    try:
        path.touch(mode, exist_ok=False)
    except FileExistsError as error:
        raise LinkSecurityError(f"{path}: is there already, and is not replaced") from error
    path.write_bytes(data)
