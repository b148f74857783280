"""What of the recipe for Kubernetes can be checked without a cluster: schemas, settings, commands, the entry point."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from typer.main import get_command

from fieldfare.cli import app
from fieldfare.pipeline.settings import read_pipelines

FOLDER = Path(__file__).parents[2] / "examples" / "kubernetes"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))


def documents(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text()))


def containers() -> Iterator[dict[str, Any]]:
    for file in MANIFESTS:
        for document in documents(file):
            if document["kind"] == "Deployment":
                yield from document["spec"]["template"]["spec"]["containers"]


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.name)
def test_manifests_follow_the_schemas_of_kubernetes(file: Path) -> None:
    for document in documents(file):
        kubernetes_validate.validate(document, "1.37", strict=True)


def test_what_manifests_mount_and_name_is_there() -> None:
    named = {(d["kind"], d["metadata"]["name"]) for file in MANIFESTS for d in documents(file)}
    for file in MANIFESTS:
        for document in documents(file):
            if document["kind"] == "Deployment":
                pod = document["spec"]["template"]["spec"]
                volumes = {volume["name"]: volume for volume in pod["volumes"]}
                for container in pod["containers"]:
                    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
                for volume in volumes.values():
                    if "configMap" in volume:
                        assert ("ConfigMap", volume["configMap"]["name"]) in named
                    if "persistentVolumeClaim" in volume:
                        assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in named
                assert ("ServiceAccount", pod["serviceAccountName"]) in named if "serviceAccountName" in pod else True


def test_the_settings_in_the_manifest_are_settings(tmp_path: Path) -> None:
    (settings,) = (d["data"]["pipelines.toml"] for d in documents(FOLDER / "pipeline.yaml") if d["kind"] == "ConfigMap")
    (tmp_path / "pipelines.toml").write_text(settings)
    for found in read_pipelines(tmp_path / "pipelines.toml").values():
        found.source()
        found.options()


def test_the_commands_in_the_manifests_have_options_that_exist() -> None:
    run = get_command(app).get_command(None, "pipeline").get_command(None, "run")  # type: ignore[attr-defined]
    known = {name for parameter in run.params for name in parameter.opts}
    for container in containers():
        said = " ".join(container["args"]).partition("pipeline run ")[2]
        options = {word.partition("=")[0] for word in shlex.split(said) if word.startswith("--")}
        assert options
        assert options <= known


def test_the_image_has_what_pipelines_may_need() -> None:
    extras = re.search(r"'/source\[(.*)\]'", (FOLDER / "Dockerfile").read_text())
    assert extras is not None
    assert set(extras[1].split(",")) == {"kafka", "objects", "postgres", "regex", "spark", "tables"}


def test_all_name_one_image_which_is_of_this_version() -> None:
    version = re.search(r'^version = "(.*)"$', (FOLDER.parents[1] / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    texts = [file.read_text() for file in (*MANIFESTS, FOLDER / "Dockerfile")]
    assert {name for text in texts for name in re.findall(r"registry\S*/fieldfare:\S+", text)} == {
        f"registry.example.org/fieldfare:{version[1]}"
    }


def test_the_entry_point_starts_an_executor_or_a_command(tmp_path: Path) -> None:
    (tmp_path / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "java").chmod(0o755)
    variables = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "SPARK_HOME": "/opt/spark",
        "SPARK_JAVA_OPT_0": "-Da=b c",
        "SPARK_JAVA_OPT_1": "-Dd=e",
        "SPARK_EXECUTOR_MEMORY": "2g",
        "SPARK_DRIVER_URL": "spark://driver",
        "SPARK_EXECUTOR_ID": "7",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "pod-7",
    }

    def said(*arguments: str) -> list[str]:
        command = ["sh", str(FOLDER / "entrypoint.sh"), *arguments]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.splitlines()

    jvm = said("executor")
    assert jvm[:2] == ["-Da=b c", "-Dd=e"]
    assert jvm[jvm.index("--executor-id") + 1] == "7"
    assert jvm[jvm.index("--podName") + 1] == "pod-7"
    assert said("echo", "a b") == ["a b"]
