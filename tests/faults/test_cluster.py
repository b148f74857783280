"""A standalone cluster loses executors, and then one of its two workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from tests.faults.conftest import Scene
from tests.faults.history import check
from tests.faults.processes import DEADLINE_SECONDS, Cluster, standalone_cluster, wait_until

import fieldfare


@pytest.fixture
def cluster(scene: Scene) -> Iterator[Cluster]:
    with standalone_cluster(scene.folder) as started:
        yield started


def test_executors_and_a_worker_are_killed_and_spark_submit_works(scene: Scene, cluster: Cluster) -> None:
    scene.begin("--master", cluster.master, "--layout", "multi", "--matchers", "2")
    with scene.traffic.flowing():
        scene.calm()
        for name, count in (("an executor is", 1), ("both executors are", 2)):
            wait_until(lambda: len(cluster.executors()) == 2, "both workers have an executor")
            scene.mark(f"{name} killed in a batch")
            scene.kill_in_batch(cluster.executors()[:count])
        wait_until(scene.batch_is_under_way, "a batch begins")
        scene.mark("a worker of the cluster is killed, with all that runs on it")
        cluster.workers[0].kill_all()
        scene.recover()
    verdict = scene.verdict()
    assert verdict.is_clean, verdict
    scene.report(verdict)
    submit(scene, cluster)


def submit(scene: Scene, cluster: Cluster) -> None:
    """All events once more, by spark-submit, on what is left of the cluster."""
    scene.output, scene.checkpoint = scene.folder / "out2", scene.folder / "state2"
    spark_submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    program = str(Path(fieldfare.__file__).with_name("__main__.py"))
    run = scene.run([spark_submit, "--master", cluster.master, program, *scene.arguments("--until-idle")])
    assert run.popen.wait(DEADLINE_SECONDS) == 0, run.said[-3000:]
    verdict = check(scene.history, scene.output)
    assert verdict.is_clean, verdict
