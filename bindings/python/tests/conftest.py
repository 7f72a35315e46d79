# SPDX-License-Identifier: Apache-2.0
"""conftest.py: a store for each test. HOLDFAST_TEST_STORES lists URLs, separated by blanks
(default: an SQLite file and a folder). All tests share a store, and each has a namespace and a
name of its own.
"""

import os
import sys
import tempfile
import uuid

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

import holdfast  # noqa: E402

_scratch = tempfile.TemporaryDirectory(prefix="holdfast-python-")
LOCAL = [f"sqlite:{_scratch.name}/store.db?sync=off", f"dir:{_scratch.name}/store?sync=off"]
STORES = os.environ.get("HOLDFAST_TEST_STORES", "").split() or LOCAL


@pytest.fixture(params=STORES, ids=[url.split(":")[0] for url in STORES])
def url(request):
    return request.param


@pytest.fixture
def name():
    """A name that nobody else uses."""
    return "t" + uuid.uuid4().hex[:12]


@pytest.fixture
def client(url, name):
    with holdfast.open(url, ns=name) as opened:
        yield opened


@pytest.fixture
def other(url, name):
    """Another client of the same namespace, as in another process."""
    with holdfast.open(url, ns=name, holder="other") as opened:
        yield opened


@pytest.fixture
def local(name):
    """A client for tests that are not about the store."""
    with holdfast.open(LOCAL[0], ns=name) as opened:
        yield opened
