"""A broker that asks for TLS and a login: certificates of an authority made here, and users."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

SASL_SSL = "SASL_SSL"
PASSWORD = "canary-of-ann"  # noqa: S105 - of a user that lives as long as the tests
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True)
class Authority:
    """Who signed the broker's certificate."""

    ca: Path
    server: Path  # the broker's key and certificate

    @property
    def broker_settings(self) -> dict[str, str]:
        """What a broker needs so as to listen with TLS, for users with PLAIN and with SCRAM."""
        listener = "listener.name.sasl_ssl"
        return {
            f"{listener}.ssl.keystore.type": "PEM",
            f"{listener}.ssl.keystore.location": str(self.server),
            f"{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            f"{listener}.plain.sasl.jaas.config": f'{_PLAIN} required user_ann="{PASSWORD}";',
            f"{listener}.scram-sha-256.sasl.jaas.config": f"{_SCRAM} required;",
        }

    def client_settings(self, mechanism: str) -> dict[str, str]:
        """librdkafka's settings for the user ann."""
        return {
            "security.protocol": SASL_SSL,
            "sasl.mechanism": mechanism,
            "sasl.username": "ann",
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.ca),
        }


def made_authority(folder: Path) -> Authority:
    """An authority that signs itself, and a certificate for this machine that it has signed."""
    names = ("ca.pem", "ca.key", "server.key", "server.csr", "server.crt")
    ca, ca_key, key, request, certificate = (str(folder / name) for name in names)
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    signing = ["-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-extfile", str(folder / "names"), "-days", "2"]
    for command in (
        ["req", "-x509", *new_key, "-subj", "/CN=An authority", "-keyout", ca_key, "-out", ca, "-days", "2"],
        ["req", *new_key, "-subj", "/CN=localhost", "-keyout", key, "-out", request],
        ["x509", "-req", "-in", request, *signing, "-out", certificate],
    ):
        subprocess.run(["openssl", *command], check=True, capture_output=True)  # noqa: S607 - whichever is there
    server = folder / "server.pem"
    server.write_text(Path(key).read_text() + Path(certificate).read_text())
    return Authority(Path(ca), server)
