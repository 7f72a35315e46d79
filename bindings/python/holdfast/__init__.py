# SPDX-License-Identifier: Apache-2.0
"""Leases, locks, keys, indexes and compaction on an object store, with no lock server.

    import holdfast

    with holdfast.open("sqlite:jobs.db") as client:
        with client.lock("deploy", wait=60) as lock:
            lock.check()                     # before each critical step; raises LostError
            lock.fenced_put("state", b"...")  # refused if a later holder has written

A call that fails raises an Error, one class for each status of the C library. Durations are
seconds. An object that was closed, or that belongs to the parent of a forked process, raises
ClosedError. Any number of threads may use an object. The C headers, include/holdfast/*.h, have the
exact guarantees.
"""

from ._client import Client, open
from ._compact import (
    ChunkInfo,
    Compact,
    CompactEvent,
    CompactStatus,
    IngestReport,
    MergeJob,
    Merger,
    Reader,
    Source,
    Totals,
    Worker,
    fault,
)
from ._elect import Cascade, Member, MemberInfo, Work, elect_order, elect_rank, elect_starts_in
from ._errors import (
    AlreadyError,
    CancelledError,
    ClosedError,
    ConflictError,
    CorruptError,
    DeniedError,
    Error,
    ExpiredError,
    FencedError,
    HeldError,
    InvalidError,
    LostError,
    MismatchError,
    NotFoundError,
    NotModifiedError,
    Status,
    TimeoutError,
    UnavailableError,
    UnreportedError,
    UnsupportedError,
    UnsureError,
)
from ._index import CompileReport, Cursor, Folded, Index, IndexStats, LoadReport
from ._key import Key, KeyInfo, State, Txn
from ._library import version
from ._lock import Blocker, Lock
from ._merge import MergeReport, merge
from ._observe import Event, KeyStatus, LeaseInfo, RequestStats, Stats

__version__ = "1.0.0"

__all__ = [
    "AlreadyError",
    "Blocker",
    "CancelledError",
    "Cascade",
    "ChunkInfo",
    "Client",
    "ClosedError",
    "Compact",
    "CompactEvent",
    "CompactStatus",
    "CompileReport",
    "ConflictError",
    "CorruptError",
    "Cursor",
    "DeniedError",
    "Error",
    "Event",
    "ExpiredError",
    "FencedError",
    "Folded",
    "HeldError",
    "Index",
    "IndexStats",
    "IngestReport",
    "InvalidError",
    "Key",
    "KeyInfo",
    "KeyStatus",
    "LeaseInfo",
    "LoadReport",
    "Lock",
    "LostError",
    "Member",
    "MemberInfo",
    "MergeJob",
    "MergeReport",
    "Merger",
    "MismatchError",
    "NotFoundError",
    "NotModifiedError",
    "Reader",
    "RequestStats",
    "Source",
    "State",
    "Stats",
    "Status",
    "TimeoutError",
    "Totals",
    "Txn",
    "UnavailableError",
    "UnreportedError",
    "UnsupportedError",
    "UnsureError",
    "Work",
    "Worker",
    "elect_order",
    "elect_rank",
    "elect_starts_in",
    "fault",
    "merge",
    "open",
    "version",
]
