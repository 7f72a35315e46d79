# SPDX-License-Identifier: Apache-2.0
"""The wheel and the source distribution are built and installed without a network, and the types
are strict."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from conftest import HERE

import holdfast

ROOT = os.path.join(HERE, "..")
CODE = (
    "import holdfast, sys\n"
    "assert 'site-packages' in holdfast.__file__, holdfast.__file__\n"
    "with holdfast.open('mem:') as client, client.lock('deploy') as lock: print(lock.token)\n"
)


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def copy(folder):
    """The sources without what earlier builds left."""
    shutil.copytree(
        ROOT,
        folder,
        ignore=shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__", ".*"),
    )
    return folder


def test_wheel_and_sdist_are_installed(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    source, out, venv = copy(tmp_path / "source"), tmp_path / "out", tmp_path / "venv"
    build = f"{sys.executable} -m build --no-isolation --outdir {out} {source}"
    run(*build.split(), env=environment)
    (wheel,) = out.glob("*.whl")
    (sdist,) = out.glob("*.tar.gz")
    assert wheel.name == f"holdfast-{holdfast.__version__}-py3-none-any.whl"
    assert "holdfast/py.typed" in zipfile.ZipFile(wheel).namelist()
    assert any("tests/test_lock.py" in name for name in tarfile.open(sdist).getnames())
    run(*f"{sys.executable} -m venv --system-site-packages --without-pip {venv}".split())
    install = f"{venv}/bin/python -m pip install -q --no-index --no-build-isolation --no-deps"
    for package in (wheel, sdist):
        run(*install.split(), "--force-reinstall", str(package), env=environment)
        assert run(f"{venv}/bin/python", "-c", CODE, cwd=tmp_path, env=environment) == "1\n"


def test_the_types_are_strict(tmp_path):
    if shutil.which("mypy") is None:
        pytest.skip("mypy is not installed")
    mistake = tmp_path / "mistake.py"
    mistake.write_text("import holdfast\nholdfast.open(7)\n")
    examples = [os.path.join(ROOT, "examples", name) for name in os.listdir(f"{ROOT}/examples")]
    command = ["mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    sources = [f"{ROOT}/holdfast", *sorted(examples), str(mistake)]
    done = subprocess.run([*command, *sources], cwd=ROOT, capture_output=True, text=True)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1 and "mistake.py:2" in errors[0], done.stdout


def test_the_versions_agree():
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as file:
        assert re.search(r'^version = "(.*)"', file.read(), re.M)[1] == holdfast.__version__
    assert holdfast.version() == holdfast.__version__
