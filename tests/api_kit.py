# SPDX-License-Identifier: Apache-2.0
"""api_kit.py: a temporary store of a given kind, for programs that use the shared library."""

import contextlib
import os
import tempfile

import ceph_kit


@contextlib.contextmanager
def store_of(kind):
    """(URL, environment) of an SQLite file in a scratch folder, or of a bucket of Ceph."""
    with tempfile.TemporaryDirectory(prefix="holdfast-api-") as folder:
        if kind == "sqlite":
            yield f"sqlite:{folder}/user.db", dict(os.environ)
        else:
            with ceph_kit.shared_or_own(folder) as ceph:
                bucket = ceph.bucket(f"api-{os.getpid()}")
                yield bucket.url(), bucket.environment
