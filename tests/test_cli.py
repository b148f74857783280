from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fieldfare
from fieldfare.cli import app

runner = CliRunner()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.csv").write_text("subscription_id,condition\ncheap,price < 10\nbroken,price <\n")
    (tmp_path / "e.jsonl").write_text('{"id": "e1", "price": 9.5}\n{"id": "e2", "price": 95}\nnonsense\n')
    return tmp_path


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["match", "--help"], ["explain", "--help"], ["demo", "--help"], ["bench"]]
)
def test_help(arguments: list[str]) -> None:
    assert "Usage" in runner.invoke(app, arguments).output


def test_help_is_quick_and_needs_nothing_heavy() -> None:
    program = (
        "import sys; from fieldfare.cli import app; app(['--help'], standalone_mode=False);"
        "print([name for name in ('pyspark', 'pyarrow.parquet', 'duckdb') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


def test_version() -> None:
    assert runner.invoke(app, ["--version"]).output == f"fieldfare {fieldfare.__version__}\n"


@pytest.mark.usefixtures("files")
def test_match_to_standard_output() -> None:
    ended = runner.invoke(app, ["match", "s.csv", "e.jsonl"])
    assert ended.exit_code == 1  # there are bad rows
    assert json.loads(ended.stdout) == {"event": "e1", "subscription_ids": ["cheap"]}
    assert "2 events, 1 subscriptions, 1 matches for 1 events" in ended.stderr
    assert "2 bad rows are in fieldfare.quarantine.jsonl" in ended.stderr


def test_match_to_a_file(files: Path) -> None:
    ended = runner.invoke(app, ["match", "s.csv", "e.jsonl", "-o", "out.csv", "--all", "--quarantine", "bad.jsonl"])
    assert ended.exit_code == 1
    assert ended.stdout == ""
    assert (files / "out.csv").read_text() == "event,subscription_id\ne1,cheap\ne2,\n"
    assert len((files / "bad.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("command", [["match", "s.csv", "e.jsonl"], ["subscriptions", "import", "s.csv"]])
def test_bad_rows_are_exit_code_1_and_the_last_line_says_where_they_are(files: Path, command: list[str]) -> None:
    ended = runner.invoke(app, [*command, "--quarantine", "bad.jsonl"])
    count = len((files / "bad.jsonl").read_text().splitlines())
    assert ended.exit_code == 1
    assert ended.stderr.splitlines()[-1] == f"{count} bad rows are in bad.jsonl"
    (files / "s.csv").write_text("subscription_id,condition\ngood,price < 10\n")
    (files / "e.jsonl").write_text('{"id": "e1", "price": 9.5}\n')
    ended = runner.invoke(app, [*command, "--quarantine", "bad.jsonl"])
    assert ended.exit_code == 0
    assert not (files / "bad.jsonl").exists()


@pytest.mark.parametrize("command", [["match"], ["subscriptions", "import"], ["publish"]])
def test_help_tells_of_the_exit_code(command: list[str]) -> None:
    assert "exit code is 1" in " ".join(runner.invoke(app, [*command, "--help"]).output.split())


@pytest.mark.usefixtures("files")
def test_a_missing_file_is_one_message_and_exit_code_2() -> None:
    ended = runner.invoke(app, ["match", "missing.csv", "e.jsonl"])
    assert ended.exit_code == 2
    assert ended.stderr == "Error: missing.csv: there is no such file\n"


@pytest.mark.slow
@pytest.mark.usefixtures("files")
def test_in_a_real_process(files: Path) -> None:
    program = "from fieldfare.cli import app; app()"
    command = [
        sys.executable,
        "-c",
        program,
        "match",
        str(files / "s.csv"),
        str(files / "e.jsonl"),
        "-o",
        "out.parquet",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    assert (files / "out.parquet").exists()


def test_explain() -> None:
    ended = runner.invoke(app, ["explain", "symbol = 'YHOO' AND price < 10"])
    assert ended.exit_code == 0
    assert "symbol" in ended.stdout
    assert "YHOO" in ended.stdout


def test_explain_points_at_the_mistake() -> None:
    ended = runner.invoke(app, ["explain", "price < 10 AND AND"])
    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert "price < 10 AND AND" in ended.stderr
    assert ended.stderr.rstrip().endswith("^")


def test_a_missing_extra_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("fieldfare.pipeline")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    ended = runner.invoke(app, ["demo", "--drivers", "1", "--events", "1", "--folder", str(tmp_path)])
    assert ended.exit_code == 2
    assert "pip install 'fieldfare[spark]'" in ended.stderr


_SERVICE_PACKAGES = ("uvicorn", "starlette", "httpcore", "httptools", "prometheus_client", "websockets", "uvloop")


def without(packages: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command where packages are not installed."""
    program = (
        "import sys; hidden = sys.argv[1].split(','); sys.modules.update(dict.fromkeys(hidden));"
        "from fieldfare.cli import app; app(sys.argv[2:])"
    )
    command = [sys.executable, "-c", program, ",".join(packages), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("packages", "arguments"),
    [
        (_SERVICE_PACKAGES, ["serve", "--port", "0"]),
        (("httpcore",), ["serve", "--port", "0"]),
        (("websockets",), ["serve", "--port", "0"]),
        (_SERVICE_PACKAGES, ["publish", "traffic", "{}"]),
        (_SERVICE_PACKAGES, ["topics"]),
    ],
)
@pytest.mark.usefixtures("files")
def test_without_the_extra_for_the_service_it_says_what_to_install(
    packages: tuple[str, ...], arguments: list[str]
) -> None:
    ended = without(packages, *arguments)
    assert ended.returncode == 2
    assert ended.stderr.startswith("Error: ")
    assert ended.stderr.endswith(": pip install 'fieldfare[service]'\n")
    assert ended.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("files")
def test_tokens_and_settings_need_no_extra() -> None:
    assert without(_SERVICE_PACKAGES, "tokens", "create", "--publish", "*").returncode == 0
    assert without(_SERVICE_PACKAGES, "tokens", "list").returncode == 0
    assert without(_SERVICE_PACKAGES, "config", "check").returncode == 0


def test_bench_engine_as_json() -> None:
    arguments = [
        "bench",
        "engine",
        "--workload",
        "bluedove",
        "--subscriptions",
        "500",
        "--events",
        "200",
        "--seconds",
        "0.05",
    ]
    ended = runner.invoke(app, [*arguments, "--peer", "numpy", "--json"])
    assert ended.exit_code == 0, ended.stderr
    (result,) = json.loads(ended.stdout)
    assert result["workload"] == "bluedove"
    assert result["ratio_to_best_peer"] > 0


def test_bench_engine_knows_its_names() -> None:
    ended = runner.invoke(app, ["bench", "engine", "--workload", "nonsense"])
    assert ended.exit_code == 2
    assert "nonsense" in ended.stderr
