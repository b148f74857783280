"""A certificate authority for one experiment or test: certificates for its brokers, made by the openssl command.

docs/broker_links.md shows the same commands to people.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from fieldfare.errors import MissingDependencyError
from fieldfare.runtime.link_security import CERTIFICATE_URI, TlsFiles

_NEW_KEY = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_USES = "serverAuth,clientAuth"  # a broker dials, and is dialled


class Authority:
    """Signs certificates. All its files are in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.certificate, self._key = folder / "ca.crt", folder / "ca.key"
        folder.mkdir(parents=True, exist_ok=True)
        files = ("-keyout", str(self._key), "-out", str(self.certificate))
        _openssl(*_NEW_KEY, "-x509", "-days", "2", "-subj", "/CN=Fieldfare brokers", *files)

    def files_for(self, name: str, *, uri: str | None = None, uses: str = _USES, days: int = 2) -> TlsFiles:
        """The files of a broker; the other arguments are for certificates that are no broker's."""
        certificate, key = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName=URI:{uri or CERTIFICATE_URI + name}\nextendedKeyUsage={uses}\n")
        _openssl(*_NEW_KEY, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request))
        signer = ("-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial")
        made = ("-extfile", str(extensions), "-days", str(days), "-out", str(certificate))
        _openssl("x509", "-req", "-in", str(request), *signer, *made)
        return TlsFiles(self.certificate, certificate, key)


def _openssl(*arguments: str) -> None:
    try:
        subprocess.run(("openssl", *arguments), check=True, capture_output=True)  # noqa: S603, S607 - our own
    except FileNotFoundError as error:
        raise MissingDependencyError("certificates are made by the openssl command: install openssl") from error
