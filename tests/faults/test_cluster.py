"""A standalone cluster: executors that bring their Python along, come and go by themselves, and are killed."""

from __future__ import annotations

import shutil
import signal
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from tests.conftest import check_java
from tests.faults.conftest import Scene
from tests.faults.history import check, committed_events
from tests.faults.processes import DEADLINE_SECONDS, Cluster, standalone_cluster, users_of, wait_until

import fieldfare

SUBMIT = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "1s",  # else those that have shuffled stay
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.executor.cores": "1",
}

_TASKS = 24  # one core needs longer for these than tasks must wait before another executor is asked for


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    check_java()
    folder = tmp_path_factory.mktemp("cluster")
    with standalone_cluster(folder) as started:
        yield started
    wait_until(lambda: not users_of(folder), f"all processes of the cluster end: {users_of(folder)}", 30)
    shutil.rmtree(folder)


def test_executors_with_an_archive_as_their_python_come_and_go(scene: Scene, cluster: Cluster) -> None:
    archive, program = packed_environment(scene.folder)
    python = "./environment/bin/python"
    scene.traffic.prepare()
    settings = [word for name, value in DYNAMIC.items() for word in ("--conf", f"{name}={value}")]
    submit = [SUBMIT, "--master", cluster.master, "--archives", f"{archive}#environment", *settings]
    run = scene.run(
        [
            *("env", "-u", "PYTHONPATH", f"PYSPARK_PYTHON={python}", f"PYSPARK_DRIVER_PYTHON={python}"),
            *submit,
            program,
            *scene.arguments("--layout", "multi", "--matchers", str(_TASKS)),
        ]
    )
    scene.wait_for_commits()
    seen = []
    for _ in range(2):
        wait_until(lambda: load(scene) and len(cluster.executors()) == 2, f"two executors: {run.said[-2000:]}", 120)
        seen.append({executor.pid for executor in cluster.executors()})
        assert {daemon.command.split()[0] for daemon in cluster.daemons()} == {python}
        scene.catch_up()
        wait_until(lambda: not cluster.executors(), "all executors are let go", 120)
        assert run.popen.poll() is None
    assert seen[0].isdisjoint(seen[1])
    load(scene)
    scene.catch_up()
    (driver,) = (member for member in run.members() if member.command.startswith(python))
    driver.kill(signal.SIGTERM)  # spark-submit itself would end at once
    assert run.popen.wait(DEADLINE_SECONDS) == 0, run.said[-3000:]
    verdict = check(scene.history, scene.output)
    assert verdict.is_clean, verdict


def load(scene: Scene) -> bool:
    """Have a batch under way, always."""
    if committed_events(scene.output) >= scene.history.events:
        scene.traffic.append()
    return True


def packed_environment(folder: Path) -> tuple[Path, str]:
    """An archive of a virtual environment, and the program in it. What Fieldfare needs it finds in the tests' own."""
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    shutil.copytree(Path(fieldfare.__file__).parent, packages / "fieldfare")
    ours = Path(pyspark.__file__).parents[1]  # without its .pth files: they would bring the sources in
    (packages / "needed.pth").write_text(f"{ours}\n")
    archive = folder / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(environment, ".")
    return archive, str(packages / "fieldfare" / "__main__.py")


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
    program = str(Path(fieldfare.__file__).with_name("__main__.py"))
    run = scene.run([SUBMIT, "--master", cluster.master, program, *scene.arguments("--until-idle")])
    assert run.popen.wait(DEADLINE_SECONDS) == 0, run.said[-3000:]
    verdict = check(scene.history, scene.output)
    assert verdict.is_clean, verdict
