"""A run that commits one batch after the other to a lake table, until it is killed."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.pipeline.output_runs import run_on

from fieldfare.pipeline.output_places import opened_output
from fieldfare.pipeline.tables.address import parse_table
from fieldfare.pipeline.writer import WriteOptions

if __name__ == "__main__":
    place, state, acknowledged = sys.argv[1:]
    output = opened_output(parse_table(place, commit_seconds=0.05), Path(state), "owner", WriteOptions())
    output.prepare()
    sys.stderr.write("ready\n")
    sys.stderr.flush()
    run_on(output, Path(acknowledged), 1_000_000)
