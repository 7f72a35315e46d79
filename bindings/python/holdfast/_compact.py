# SPDX-License-Identifier: Apache-2.0
"""_compact.py: compaction of many small files into a few, by any number of workers, and reading
what they made. See holdfast/compact.h and holdfast/reader.h."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Tuple, Union

from . import _abi
from ._errors import Error, InvalidError, Status, error_of
from ._handle import ClosingHandle, Core, client_thread
from ._library import (
    Path,
    call,
    lib,
    members_of,
    milliseconds,
    optional,
    path_bytes,
    status_of,
    string,
    text,
    texts,
)
from ._merge import CODINGS, FORMATS, choose
from ._observe import Guard

if TYPE_CHECKING:
    from ._client import Client

POLICIES = {"levels": _abi.HF_COMPACT_LEVELS, "cascade": _abi.HF_COMPACT_CASCADE}
CHUNKS = {
    "live": _abi.HF_CHUNKS_LIVE,
    "quarantined": _abi.HF_CHUNKS_QUARANTINED,
    "all": _abi.HF_CHUNKS_ALL,
}
WORKER_MODES = {
    "once": _abi.HF_COMPACT_ONCE,
    "drain": _abi.HF_COMPACT_DRAIN,
    "watch": _abi.HF_COMPACT_WATCH,
}
SLICE_MS = 100  # how long a wait for a worker may take until signals are handled


@dataclass(frozen=True)
class ChunkInfo:
    """A chunk (struct hf_chunk_info)."""

    key: str
    partition: str
    state: str
    level: int
    size: int
    rows_known: bool
    rows: int
    min: float
    max: float
    writer: str
    sequence: int
    crc32c: int
    rejects: int
    tries: int
    quarantine: str
    into: str
    object: str
    etag: str


@dataclass(frozen=True)
class Totals:
    """The work of a worker (struct hf_compact_totals)."""

    groups_planned: int
    bytes_planned: int
    groups_committed: int
    groups_failed: int
    groups_lost: int
    bytes_done: int
    bytes_in_vain: int
    rows_in: int
    rows_out: int
    rows_superseded: int
    rows_expired: int
    rows_rejected: int
    claims: int
    claims_held: int
    takeovers: int
    settled: int
    condemned: int
    retired: int
    reaped: int
    deleted: int
    pinned: int
    dropped: int
    adopted: int
    rows_deleted: int


@dataclass(frozen=True)
class IngestReport:
    """The result of an ingest (struct hf_compact_ingest_report)."""

    added: int
    already: int
    failed: int
    bytes: int
    rows: int
    malformed: int


@dataclass(frozen=True)
class CompactStatus:
    """The status of a partition: what most programs need of struct hf_compact_status."""

    catalogs: int
    paused: bool
    paused_why: str
    due_groups: int
    due_bytes: int
    under_way: int
    committed: int
    failed: int
    lost: int
    last_failure: str
    quarantined: int
    tombstones: int
    tombstone_bytes: int
    members: int
    pressure: int
    levels: List[Tuple[int, int, int]]  # chunks, bytes and rows of each level


@dataclass(frozen=True)
class CompactEvent:
    """An event of a worker: `kind` is "planned", "started", "ended", "trouble" and so on; `end`
    and `why` say how a merge ended."""

    kind: str
    sources: List[str]
    level: int
    end: str
    why: str
    output: str


@dataclass(frozen=True)
class Source:
    """A chunk to be merged: `path` is a file with its bytes, read only."""

    key: str
    path: str
    size: int


class MergeJob:
    """What a merger merges: `sources` into a new file `output`. `folder` is for temporary files."""

    def __init__(self, job: Any) -> None:
        struct = job.contents
        self._job: Any = job
        self.sources = [
            Source(string(source.key), string(source.path), source.size)
            for source in (struct.sources[i] for i in range(struct.source_count))
        ]
        self.partition, self.level = string(struct.partition), int(struct.level)
        self.output, self.folder = string(struct.output), string(struct.folder)
        self.memory_bytes = int(struct.memory_bytes)

    def goes_on(self, bytes_done: int = 0) -> bool:
        """False if the merge should stop: raise CancelledError then. Call it every few seconds."""
        return self._job is not None and bool(lib.hf_merger_goes_on(self._job, bytes_done))


@dataclass(frozen=True)
class Merger:
    """A merger in Python: `merge` is called with a MergeJob, by threads of the worker, and writes
    job.output. It may return (rows_in, rows_out).

    It raises CorruptError or InvalidError if the sources cannot be merged: see fault(). After any
    other exception, Compact.run and Worker.wait stop the worker, and raise it. `name` is the first
    word of the command of the partition; None: any partition.
    """

    merge: Callable[[MergeJob], Optional[Tuple[int, int]]]
    name: Optional[str] = None


def fault(source: int, message: str) -> Error:
    """The exception for a source, by its number in job.sources, that cannot be merged: it is
    quarantined."""
    error = error_of(Status.CORRUPT, message, "")
    error.culprit = source  # type: ignore[attr-defined]
    return error


class _MergerCallback:
    """A Merger as C calls it, and the first exception that was not about the data."""

    def __init__(self, merger: Merger) -> None:
        self._merger = merger
        self.error: Optional[BaseException] = None
        self._merge = _abi.hf_merger_merge(self._call)
        self.struct = _abi.hf_merger.new(name=optional(merger.name), merge=self._merge)

    def _call(self, _argument: Any, job: Any, merged: Any, error: Any) -> int:
        with client_thread():
            return self._run(job, merged, error)

    def _run(self, job: Any, merged: Any, error: Any) -> int:
        made = MergeJob(job)
        try:
            rows = self._merger.merge(made)
            if rows is not None:
                merged.contents.rows_known = True
                merged.contents.rows_in, merged.contents.rows_out = rows
            return _abi.HF_OK
        except Error as why:
            culprit = getattr(why, "culprit", None)
            if culprit is not None:
                merged.contents.culprit = culprit
            return self._failed(why, int(why.status), error)
        except BaseException as why:
            if self.error is None:
                self.error = why
            return self._failed(why, _abi.HF_UNAVAILABLE, error)
        finally:
            made._job = None  # its memory is the library's again

    @staticmethod
    def _failed(why: BaseException, status: int, error: Any) -> int:
        if error:
            error.contents.status = status
            reason = f"{type(why).__name__}: {why}" if not isinstance(why, Error) else str(why)
            error.contents.why = reason.encode("utf-8", "replace")[: _abi.HF_WHY_MAX - 1]
        return status


def chunk_of(struct: Any) -> ChunkInfo:
    values = members_of(struct)
    values["state"] = string(lib.hf_chunk_state_name(struct.state))
    return ChunkInfo(**values)


def event_of(struct: Any) -> CompactEvent:
    group = struct.group.contents if struct.group else None
    result = struct.result.contents if struct.result else None
    return CompactEvent(
        kind=string(lib.hf_compact_event_name(struct.kind)),
        sources=[string(group.sources[i]) for i in range(group.source_count)] if group else [],
        level=group.level if group else 0,
        end=string(lib.hf_compact_end_name(result.end)) if result else "",
        why=string(result.error.why) if result else string(struct.why),
        output=string(result.output) if result else "",
    )


class Worker(ClosingHandle):
    """A worker that merges in threads of the library. Made by Compact.worker; `with` stops it at
    the end."""

    def __init__(
        self, compact: Compact, options: Any, guard: Guard, merger: Optional[_MergerCallback]
    ) -> None:
        self._compact = compact  # which closes the worker when it is no longer referenced
        self._guard, self._merger = guard, merger
        pointer = ctypes.c_void_p()
        with compact._core as owner:
            call("hf_compact_worker_start", owner, ctypes.byref(options), ctypes.byref(pointer))
        core = Core(
            pointer, lib.hf_compact_worker_free, "worker", compact._core, lib.hf_compact_worker_stop
        )
        core.keep += [guard, merger]
        self._own(core)

    def stop(self) -> None:
        """Asks the worker to stop. Running merges are cancelled cleanly."""
        with self._core as pointer:
            lib.hf_compact_worker_stop(pointer)

    def _callback_error(self) -> Optional[BaseException]:
        error: Optional[BaseException] = self._guard.error
        return error or (self._merger.error if self._merger else None)

    def wait(self, wait: Optional[float] = None) -> Totals:
        """Waits until the worker has ended, for up to `wait` seconds (None: for ever), and raises
        TimeoutError if it is still running. If a callback or a merger has raised, stops the worker
        and raises that."""
        totals, left = _abi.hf_compact_totals.new(), milliseconds(wait)
        while True:
            with self._core as pointer:
                part = min(left, SLICE_MS)
                status, why = status_of(
                    "hf_compact_worker_wait", pointer, part, ctypes.byref(totals)
                )
                error = self._callback_error()
                if error is not None:
                    lib.hf_compact_worker_stop(pointer)
            left -= part if left != _abi.HF_WAIT_FOREVER else 0
            if status != _abi.HF_TIMEOUT or (left <= 0 and error is None):
                break
        if error is not None:
            raise error
        if status != _abi.HF_OK:
            raise error_of(status, why, "hf_compact_worker_wait")
        return Totals(**members_of(totals))


class Reader(ClosingHandle):
    """A snapshot of a partition, whose chunks are not deleted until it is closed. Made by
    Compact.reader."""

    def __init__(self, compact: Compact, ttl: float) -> None:
        self._compact = compact  # which closes the reader when it is no longer referenced
        options, pointer = (
            _abi.hf_compact_reader_options.new(ttl_ms=milliseconds(ttl)),
            ctypes.c_void_p(),
        )
        with compact._core as owner:
            call("hf_compact_reader_open", owner, ctypes.byref(options), ctypes.byref(pointer))
        self._own(Core(pointer, lib.hf_compact_reader_close, "reader", compact._core))

    def check(self) -> None:
        """Raises LostError if a chunk is no longer pinned. Call it after the last read."""
        with self._core as pointer:
            call("hf_compact_reader_check", pointer)

    def chunks(self) -> List[ChunkInfo]:
        """The chunks of the snapshot."""
        found: List[ChunkInfo] = []
        with self._core as pointer:
            lib.hf_compact_reader_rewind(pointer)
            while True:
                chunk = _abi.hf_chunk_info.new()
                status, why = status_of("hf_compact_reader_next", pointer, ctypes.byref(chunk))
                if status == _abi.HF_NOT_FOUND:
                    return found
                if status != _abi.HF_OK:
                    raise error_of(status, why, "hf_compact_reader_next")
                found.append(chunk_of(chunk))

    def _options(
        self,
        guard: Guard,
        key_prefix: Optional[str],
        since: Optional[float],
        until: Optional[float],
        format: Optional[str],
        coding: str = "auto",
    ) -> Any:
        options = _abi.hf_compact_export_options.new(
            convert=format is not None,
            key_prefix=optional(key_prefix),
            coding=choose("coding", coding, CODINGS),
            progress=guard.each(_abi.hf_compact_export_options_progress, lambda progress: True),
        )
        if format is not None:
            options.format = choose("format", format, FORMATS)
        if since is not None:
            options.since_ms = milliseconds(since)
        if until is not None:
            options.until_ms = milliseconds(until)
        return options

    def export(
        self,
        path: Path,
        *,
        format: Optional[str] = None,
        coding: str = "auto",
        key_prefix: Optional[str] = None,
        since: Optional[float] = None,
        until: Optional[float] = None,
    ) -> int:
        """Writes the records to a file, which appears only when it is complete: the latest record
        of each key. Returns how many. `since` and `until` are seconds since 1970."""
        report = _abi.hf_compact_export_report.new()
        output = _abi.hf_merge_file(path_bytes(path), -1)
        guard = Guard(self._core)
        options = self._options(guard, key_prefix, since, until, format, coding)
        guard.call(
            "hf_compact_reader_export",
            ctypes.byref(output),
            ctypes.byref(options),
            ctypes.byref(report),
        )
        return int(report.rows_out)

    def each_row(
        self,
        each: Callable[[bytes], Any],
        *,
        format: Optional[str] = None,
        key_prefix: Optional[str] = None,
        since: Optional[float] = None,
        until: Optional[float] = None,
    ) -> None:
        """Calls `each` with each record, without its line end. If it returns False, no more
        follow."""
        guard = Guard(self._core)
        options = self._options(guard, key_prefix, since, until, format)
        row = guard.each(_abi.hf_compact_reader_rows_each, lambda row: each(row_of(row)))
        guard.call("hf_compact_reader_rows", row, None, ctypes.byref(options), None)

    def rows(self, **options: Any) -> List[bytes]:
        """All records; the options are those of each_row. For a partition that is larger than
        memory, use each_row or export."""
        found: List[bytes] = []

        def one(row: bytes) -> None:
            found.append(row)

        self.each_row(one, **options)
        return found


def row_of(row: Any) -> bytes:
    # The bytes need not end with a NUL, so they are read by their address.
    address = ctypes.cast(
        ctypes.addressof(row.contents) + _abi.hf_compact_row.bytes.offset,
        ctypes.POINTER(ctypes.c_void_p),
    )
    return ctypes.string_at(address[0] or 0, row.contents.size) if row.contents.size else b""


class Compact(ClosingHandle):
    """A partition: a set of chunks that workers merge. Made by Client.compact."""

    def __init__(
        self,
        client: Client,
        partition: str,
        allow_exec: Iterable[str],
        scratch_folder: Optional[str],
    ) -> None:
        self.client, self.partition = client, partition
        programs = list(allow_exec)
        options = _abi.hf_compact_options.new(
            allow_exec=texts(programs),
            allow_exec_count=len(programs),
            scratch_folder=optional(scratch_folder),
        )
        pointer = ctypes.c_void_p()
        with client._core as owner:
            call(
                "hf_compact_open",
                owner,
                text(partition),
                ctypes.byref(options),
                ctypes.byref(pointer),
            )
        self._own(Core(pointer, lib.hf_compact_close, "partition", client._core))

    # ---- Settings -------------------------------------------------------------------------------

    def create(self, **settings: Any) -> None:
        """Creates the partition. The settings are those of struct hf_compact_settings, with
        durations in seconds: create(format="csv", key="id", time="updated", ttl=60). A partition
        with the same settings may exist; another raises ConflictError."""
        struct = _abi.hf_compact_settings.new()
        set_settings(struct, settings)
        with self._core as pointer:
            call("hf_compact_create", pointer, ctypes.byref(struct))

    def settings(self) -> Dict[str, Any]:
        """The settings in the bucket."""
        struct = _abi.hf_compact_settings.new()
        with self._core as pointer:
            call("hf_compact_get_settings", pointer, ctypes.byref(struct))
            values = members_of(struct)
        values["format"] = string(lib.hf_merge_format_name(struct.format))
        values["coding"] = string(lib.hf_merge_coding_name(struct.coding))
        values["policy"] = string(lib.hf_compact_policy_name(struct.policy))
        return {
            name: (value or None) if name in ("key", "time", "command", "deleted") else value
            for name, value in values.items()
        }

    def set(self, **changes: Any) -> None:
        """Changes some settings. The others stay, also those that another client changes at the
        same time."""
        before = _abi.hf_compact_settings.new()
        after = _abi.hf_compact_settings.new()
        with self._core as pointer:
            call("hf_compact_get_settings", pointer, ctypes.byref(before))
            ctypes.memmove(ctypes.byref(after), ctypes.byref(before), ctypes.sizeof(before))
            set_settings(after, changes)
            call("hf_compact_set", pointer, ctypes.byref(before), ctypes.byref(after))

    def pause(self, why: Optional[str] = None, by: Optional[str] = None) -> None:
        """Stops workers from starting merges."""
        with self._core as pointer:
            call("hf_compact_pause", pointer, optional(why), optional(by))

    def resume(self) -> None:
        """Lets workers start merges again."""
        with self._core as pointer:
            call("hf_compact_resume", pointer)

    # ---- Chunks ---------------------------------------------------------------------------------

    def ingest(
        self, *paths: Path, writer: Optional[str] = None, id: Optional[str] = None, wait: float = 0
    ) -> IngestReport:
        """Adds files as chunks. A file that was added before is not added again, so an ingest that
        was interrupted can be repeated. Raises the reason of the first file that could not be
        added, after the others have been."""
        return self._ingest(
            "hf_compact_ingest", [path_bytes(path) for path in paths], writer, id, wait
        )

    def ingest_objects(
        self, *keys: str, writer: Optional[str] = None, id: Optional[str] = None, wait: float = 0
    ) -> IngestReport:
        """Like ingest, for objects in the store, which are left in place."""
        return self._ingest(
            "hf_compact_ingest_objects", [text(key) for key in keys], writer, id, wait
        )

    def _ingest(
        self, name: str, sources: List[bytes], writer: Optional[str], id: Optional[str], wait: float
    ) -> IngestReport:
        report = _abi.hf_compact_ingest_report.new()
        options = _abi.hf_compact_ingest_options.new(
            writer=optional(writer), id=optional(id), wait_ms=milliseconds(wait)
        )
        guard = Guard(self._core)
        options.progress = guard.each(
            _abi.hf_compact_ingest_options_progress, lambda sources_done, bytes_done: True
        )
        guard.call(name, texts(sources), len(sources), ctypes.byref(options), ctypes.byref(report))
        return IngestReport(**members_of(report))

    def chunks(self, which: str = "live") -> List[ChunkInfo]:
        """The chunks that are "live", "quarantined", or "all" of them."""
        found: List[ChunkInfo] = []
        guard = Guard(self._core)
        each = guard.each(
            _abi.hf_compact_chunks_each, lambda chunk: found.append(chunk_of(chunk.contents))
        )
        guard.call("hf_compact_chunks", choose("kind of chunks", which, CHUNKS), each, None)
        return found

    def quarantine(self, key: str, why: str) -> None:
        """Excludes a chunk from merges."""
        with self._core as pointer:
            call("hf_compact_quarantine", pointer, text(key), text(why))

    def unquarantine(self, key: str) -> None:
        """Includes a chunk again."""
        with self._core as pointer:
            call("hf_compact_unquarantine", pointer, text(key))

    def undelete(self, key: str) -> int:
        """Undoes the merge of a chunk within its grace period, and returns how many chunks are
        back."""
        restored = ctypes.c_uint64()
        with self._core as pointer:
            call("hf_compact_undelete", pointer, text(key), ctypes.byref(restored))
        return restored.value

    # ---- Workers --------------------------------------------------------------------------------

    def should_start(self) -> bool:
        """Whether a run would find something to merge."""
        start = ctypes.c_bool()
        with self._core as pointer:
            call("hf_compact_should_start", pointer, ctypes.byref(start), None)
        return start.value

    def worker(
        self,
        mode: str = "watch",
        *,
        force: bool = False,
        jobs: int = 0,
        threads: int = 0,
        memory_bytes: int = 0,
        poll: float = 0,
        label: Optional[str] = None,
        inbox: Optional[str] = None,
        beat: float = 0,
        merger: Union[Merger, Callable[[MergeJob], Optional[Tuple[int, int]]], None] = None,
        event: Optional[Callable[[CompactEvent], Any]] = None,
    ) -> Worker:
        """Starts a worker: "once" (one plan), "drain" (until nothing is left to do) or "watch"
        (until it is stopped). `merger` merges in Python. `event` is called with each CompactEvent;
        the worker stops if it returns False."""
        guard = Guard()
        options = _abi.hf_compact_worker_options.new(
            mode=choose("mode", mode, WORKER_MODES),
            force=force,
            jobs=jobs,
            threads=threads,
            memory_bytes=memory_bytes,
            poll_ms=milliseconds(poll),
            label=optional(label),
            inbox=optional(inbox),
            beat_ms=milliseconds(beat),
        )
        callback = None
        if merger is not None:
            callback = _MergerCallback(merger if isinstance(merger, Merger) else Merger(merger))
            options.merger = ctypes.pointer(callback.struct)
        if event is not None:
            told = event
            options.event = guard.each(
                _abi.hf_compact_worker_options_event, lambda struct: told(event_of(struct.contents))
            )
        return Worker(self, options, guard, callback)

    def run(self, mode: str = "once", **options: Any) -> Totals:
        """Runs a worker until all work is done; the options are those of worker. Ctrl-C stops it
        cleanly."""
        if mode == "watch":
            raise InvalidError(Status.INVALID, "run ends by itself: use worker to watch", "")
        with self.worker(mode, **options) as worker:
            return worker.wait()

    def reader(self, *, ttl: float = 0) -> Reader:
        """A snapshot of the live chunks, for reading while workers merge and delete."""
        return Reader(self, ttl)

    def status(self) -> CompactStatus:
        """What is due, running, done and failed."""
        found = _abi.hf_compact_status.new()
        with self._core as pointer:
            call("hf_compact_get_status", pointer, None, ctypes.byref(found))
        values = members_of(found, skip=("struct_size", "committed_ms"))
        values["levels"] = [(level.chunks, level.bytes, level.rows) for level in found.levels]
        return CompactStatus(**{name: values[name] for name in CompactStatus.__dataclass_fields__})


def set_settings(struct: Any, settings: Dict[str, Any]) -> None:
    """Fills in a struct hf_compact_settings."""
    words = {"format": FORMATS, "coding": CODINGS, "policy": POLICIES}
    members = {name for name, *_kind in struct._fields_} - {"struct_size"}
    for name, value in settings.items():
        if name in words:
            setattr(struct, name, choose(name, value, words[name]))
        elif f"{name}_ms" in members:
            setattr(struct, f"{name}_ms", milliseconds(value))
        elif name in members:
            setattr(
                struct, name, optional(value) if value is None or isinstance(value, str) else value
            )
        else:
            raise InvalidError(Status.INVALID, f"unknown setting '{name}'", "")
