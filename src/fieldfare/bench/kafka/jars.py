"""The jars of Apache Kafka, fetched once with Maven into the user's cache folder. Tests and the benchmark run them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from fieldfare.errors import MissingDependencyError

KAFKA_VERSION = "4.1.0"
MAVEN_HINT = "install Maven (Debian, Ubuntu: apt install maven), or name a broker of your own with --broker"
_FETCH_SECONDS_MAX = 600.0
_POM = f"""<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>fieldfare</groupId> <artifactId>kafka-jars</artifactId> <version>1</version> <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId> <artifactId>kafka_2.13</artifactId> <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId> <artifactId>slf4j-simple</artifactId> <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""


def kafka_jars() -> Path:
    """A folder that has all of Kafka's jars. Fetches them if they are not there; an error says what is missing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fieldfare"
    jars = cache / f"kafka-{KAFKA_VERSION}"
    if not jars.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".kafka-", dir=cache) as scratch:
            _fetch(Path(scratch))
            try:
                (Path(scratch) / "jars").rename(jars)
            except OSError:
                if not jars.is_dir():  # else another process was faster, with the same jars
                    raise
    return jars


def _fetch(scratch: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingDependencyError(
            f"Kafka's jars are not here, and Maven, which fetches them, is missing: {MAVEN_HINT}"
        )
    (scratch / "pom.xml").write_text(_POM, encoding="utf-8")
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={scratch / 'jars'}"]
    command = [maven, "--quiet", "--batch-mode", "--file", str(scratch / "pom.xml"), *goal]
    try:
        done = subprocess.run(  # noqa: S603 - our own command
            command, capture_output=True, text=True, check=False, timeout=_FETCH_SECONDS_MAX
        )
    except subprocess.TimeoutExpired as error:
        raise MissingDependencyError(
            f"Maven did not fetch Kafka in {_FETCH_SECONDS_MAX:.0f} s: {MAVEN_HINT}"
        ) from error
    if done.returncode:
        raise MissingDependencyError(f"Maven cannot fetch Kafka: {done.stdout.strip()[-1000:]}: {MAVEN_HINT}")
