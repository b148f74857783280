"""The pages of documentation as data: their code blocks, and what each block says will be seen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
ANYTHING = "..."  # in the output that a page shows: a line of it stands for any lines, inside a line for any text

_block = re.compile(
    r"^(?:<!-- not run: (?P<reason>.*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_prints = re.compile(r"# prints (.*)$", re.MULTILINE)
_file_name = re.compile(r"# (\S+\.\w+)\n")


@dataclass(frozen=True, slots=True)
class Command:
    """A command at a terminal, and the lines that the page shows after it."""

    text: str
    shown: tuple[str, ...]

    @property
    def goes_on(self) -> bool:
        """Whether it runs until somebody stops it, in a terminal of its own."""
        endless = re.match(r"fieldfare (serve|broker |run |pipeline run|subscribe .* --follow)", self.text)
        return endless is not None and "--until-idle" not in self.text and not self.fails

    @property
    def fails(self) -> bool:
        """Whether the page shows that it ends in an error."""
        return any(line.startswith("Error: ") for line in self.shown)


@dataclass(frozen=True, slots=True)
class Block:
    """A code block. `not_run` is the reason for which it is not run, from the comment before it."""

    language: str
    text: str
    line: int
    not_run: str | None

    @property
    def commands(self) -> Iterator[Command]:
        """What a console block says to type, and shows as the answer."""
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            found = re.match(r"((?:.*\\\n)*.*)\n?", part)
            assert found is not None
            yield Command(found[1], tuple(part[found.end() :].splitlines()))

    @property
    def prints(self) -> list[str]:
        """What a Python block says to print, in comments."""
        return _prints.findall(self.text)

    @property
    def file_name(self) -> str | None:
        """The file that the block is, if its first line is a comment with a name."""
        found = _file_name.match(self.text)
        return found and found[1]


def blocks(page: Path) -> list[Block]:
    """The code blocks of a page."""
    text = page.read_text()
    return [
        Block(found["language"], found["text"], text.count("\n", 0, found.start("text")), found["reason"])
        for found in _block.finditer(text)
    ]


def is_shown(shown: tuple[str, ...], output: str) -> bool:
    """Whether an output is what a page shows."""
    pattern = "".join(
        r"(?:.*\n)*"
        if line.strip() == ANYTHING
        else ".*".join(map(re.escape, line.rstrip().split(ANYTHING))) + r"\s*\n"
        for line in shown
    )
    return re.fullmatch(pattern, output if output.endswith("\n") else f"{output}\n") is not None
