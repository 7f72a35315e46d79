# SPDX-License-Identifier: Apache-2.0
"""What the documents show works: every block of the README, and every example."""

import os
import re
import runpy
import sys
import textwrap

import pytest
from conftest import HERE, LOCAL

import holdfast

ROOT = os.path.join(HERE, "..")
EXAMPLES = sorted(
    name for name in os.listdir(os.path.join(ROOT, "examples")) if name.endswith(".py")
)


def test_every_block_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.S | re.M)
    assert len(blocks) == 10
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    for line in (
        "held",
        "the backup goes here",
        "ada",
        "a.example",
        "[b'1,eve,1770372009']",
        "this process starts",
        "granted named:deploy",
    ):
        assert line in printed, printed
    assert any(line.startswith("HELD the lock is held") for line in printed), printed


def test_the_block_of_the_main_readme_runs(tmp_path):
    path = os.path.join(ROOT, "../../README.md")
    if not os.path.exists(path):
        pytest.skip("it is not part of the source distribution")
    with open(path, encoding="utf-8") as file:
        block = re.search(r"^    import holdfast\n(?:    .*\n)+", file.read(), re.M)[0]
    url = f"sqlite:{tmp_path}/readme.db?sync=off"
    assert "s3://bucket/prefix" in block
    exec(textwrap.dedent(block.replace("s3://bucket/prefix", url)), {"data": b"{}"})
    with holdfast.open(url) as client:
        assert client.fenced_get("state.json")[0] == b"{}"


SHOWN = {
    "async_lock.py": "it is held, and nobody waits any more",
    "compactor.py": "1 merged",
    "election.py": "rank 0",
    "event_log.py": "granted named:deploy",
    "fenced_writer.py": "all is well",
    "index.py": "['a.example', 'c.example']",
    "keys.py": "under a lease: 2",
    "lock.py": "the work goes here",
    "transaction.py": "ann 60 joe 40",
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_example_runs(example, monkeypatch, capsys, tmp_path):
    for url in ("mem:", f"sqlite:{tmp_path}/example.db?sync=off"):
        monkeypatch.setattr(sys, "argv", [example, url])
        runpy.run_path(os.path.join(ROOT, "examples", example), run_name="__main__")
        assert SHOWN[example] in capsys.readouterr().out


def test_the_reference_is_as_generated_from_the_docstrings():
    path = os.path.join(ROOT, "../../docs/python.md")
    if not os.path.exists(path):
        pytest.skip("it is not part of the source distribution")
    reference = runpy.run_path(os.path.join(ROOT, "tools/make_reference.py"))
    with open(path, encoding="utf-8") as file:
        assert file.read() == reference["write"](), "run bindings/python/tools/make_reference.py"
    described = {name for _title, names in reference["SECTIONS"] for name in names}
    errors = {name for name in holdfast.__all__ if name.endswith("Error")}
    assert described | errors | {"Status"} == set(holdfast.__all__)


def test_everything_public_is_documented():
    assert sorted(holdfast.__all__) == sorted(set(holdfast.__all__))
    for name in holdfast.__all__:
        thing = getattr(holdfast, name)
        assert thing.__doc__, name
        for member, value in vars(thing).items() if isinstance(thing, type) else ():
            if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                assert value.__doc__, f"{name}.{member}"
    assert LOCAL
