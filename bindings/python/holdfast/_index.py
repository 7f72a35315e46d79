# SPDX-License-Identifier: Apache-2.0
"""_index.py: indexes that keep the latest record of each key. See holdfast/index.h."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import (
    IO,
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Union,
)

from . import _abi
from ._errors import Error, InvalidError, NotFoundError, Status, error_of
from ._handle import ClosingHandle, Core
from ._library import call, lib, members_of, milliseconds, optional, status_of, string, text, texts
from ._observe import Guard

if TYPE_CHECKING:
    from ._client import Client

Record = Dict[str, str]
Filters = Union[str, Sequence[str], None]
FORMATS = {
    "usv": _abi.HF_INDEX_USV,
    "csv": _abi.HF_INDEX_CSV,
    "tsv": _abi.HF_INDEX_TSV,
    "ndjson": _abi.HF_INDEX_NDJSON,
}


@dataclass(frozen=True)
class Folded:
    """The work of a compile (struct hf_index_folded)."""

    entries: int
    records_new: int
    records_later: int
    superseded: int
    aside: int
    deleted: int
    marked: int
    newer: int
    left: int


@dataclass(frozen=True)
class CompileReport:
    """The result of a compile (struct hf_index_compile_report)."""

    shards_done: int
    shards_held: int
    shards_lost: int
    shards_failed: int
    folded: Folded
    keys_deleted: int
    deletions_dropped: int


@dataclass(frozen=True)
class LoadReport:
    """The result of a load (struct hf_index_load_report)."""

    records: int
    straight: int
    held: int
    few: int
    damaged: int
    shards: int
    refused: int
    up_to_line: int
    bytes_read: int
    complete: bool


@dataclass(frozen=True)
class IndexStats:
    """The status of an index (struct hf_index_stats)."""

    entries: int
    entries_foreign: int
    entry_bytes: int
    markers: int
    strays: int
    shards_waiting: int
    oldest: float
    shards: int
    shard_bytes: int
    shard_bytes_max: int
    largest: str
    records: int
    records_at: float
    holder_count: int
    locks_unreadable: int
    aside: int
    deletions: int


def file_format(format: Optional[str], file: Any) -> int:
    """The constant of a format, or that of the file's name."""
    if format is None:
        found = ctypes.c_int()
        name = getattr(file, "name", None)
        if isinstance(name, str) and lib.hf_index_format_of_path(text(name), ctypes.byref(found)):
            return found.value
        raise InvalidError(
            Status.INVALID, "cannot determine the format of the file: pass format=", ""
        )
    if format not in FORMATS:
        raise InvalidError(
            Status.INVALID, f"unknown format '{format}': use {', '.join(FORMATS)}", ""
        )
    return FORMATS[format]


class _Query:
    """A struct hf_index_query and what it points to."""

    def __init__(
        self,
        guard: Optional[Guard],
        prefix: Optional[str],
        since: Optional[str],
        where: Filters,
        shard: Optional[str],
        sort: Optional[str] = None,
        limit: int = 0,
    ) -> None:
        filters = [where] if isinstance(where, str) else list(where or ())
        self._filters = texts(filters)
        self.struct = _abi.hf_index_query.new(
            prefix=optional(prefix),
            since=optional(since),
            shard=optional(shard),
            filters=self._filters,
            filter_count=len(filters),
            sort=optional(sort),
            limit=limit,
        )
        if guard is not None:
            self.struct.progress = guard.each(_abi.hf_index_query_progress, lambda so_far: True)


class Cursor(ClosingHandle):
    """The records that match a query, in its order. Made by Index.query; only one thread at a time
    may use it. It closes itself at the end."""

    def __init__(self, index: Index, query: _Query) -> None:
        self._index, self._ended = index, False
        pointer = ctypes.c_void_p()
        with index._core as owner:
            call("hf_index_cursor_open", owner, ctypes.byref(query.struct), ctypes.byref(pointer))
        self._own(Core(pointer, lib.hf_index_cursor_close, "cursor", index._core))

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        """Raises the reason if a shard cannot be read; the next call continues with the next
        shard."""
        if self._ended:
            raise StopIteration
        record = ctypes.c_void_p()
        with self._core as pointer:
            status, why = status_of("hf_index_cursor_next", pointer, ctypes.byref(record))
            if status == _abi.HF_OK:
                return self._index._record(record)
        if status != _abi.HF_NOT_FOUND:
            raise error_of(status, why, "hf_index_cursor_next")
        self._ended = True
        self.close()
        raise StopIteration


class Index(ClosingHandle):
    """An index. Made by Client.index and Client.create_index. A record is a dict of strings. Any
    number of threads may use it."""

    def __init__(self, client: Client, name: str, pointer: Any) -> None:
        self.client, self.name = client, name
        self._own(Core(pointer, lib.hf_index_close, "index", client._core))
        self._names: List[bytes] = []

    @classmethod
    def _open(cls, client: Client, name: str) -> Index:
        pointer = ctypes.c_void_p()
        with client._core as owner:
            call("hf_index_open", owner, text(name), ctypes.byref(pointer))
        return cls(client, name, pointer)

    @classmethod
    def _create(cls, client: Client, name: str, options: Any) -> Index:
        pointer = ctypes.c_void_p()
        with client._core as owner:
            call(
                "hf_index_create",
                owner,
                text(name),
                ctypes.byref(options),
                None,
                ctypes.byref(pointer),
            )
        return cls(client, name, pointer)

    # ---- Fields ---------------------------------------------------------------------------------

    def _field_names(self) -> List[bytes]:
        """The fields that the handle knows. Others may be added at any time, at the end."""
        names = list(self._names)  # threads may do this at the same time
        with self._core as pointer:
            while (name := lib.hf_index_field_name(pointer, len(names))) is not None:
                names.append(name)
        self._names = names
        return names

    @property
    def fields(self) -> List[str]:
        """The names of the fields, in order."""
        return [string(name) for name in self._field_names()]

    def _record(self, record: Any) -> Record:
        found, size = {}, ctypes.c_size_t()
        for name in self._field_names():
            value = lib.hf_index_record_value(record, name, ctypes.byref(size))
            if value is None:
                raise MemoryError("no memory for the value of a field")
            found[string(name)] = string(ctypes.string_at(value, size.value))
        return found

    # ---- Writing --------------------------------------------------------------------------------

    def put(self, record: Optional[Mapping[str, str]] = None, **values: str) -> None:
        """Puts one record, as a mapping or by keywords: put(host="a.example", owner="ada"). Fields
        that are left out are empty, and the timestamp is now. When it returns, the record is
        durable, and every reader sees it."""
        self.put_many([{**(record or {}), **values}])

    def put_many(self, records: Iterable[Mapping[str, str]]) -> None:
        """Puts several records. If one of them is not valid, none is put."""
        rows, keep = [], []
        for record in records:
            values = (_abi.hf_index_value * len(record))(
                *(_abi.hf_index_value(text(name), text(value)) for name, value in record.items())
            )
            keep.append(values)
            rows.append(_abi.hf_index_row(values, len(record)))
        with self._core as pointer:
            call(
                "hf_index_put_many",
                pointer,
                (_abi.hf_index_row * len(rows))(*rows),
                len(rows),
                None,
            )

    def delete(self, *keys: str, time: Optional[str] = None) -> None:
        """Deletes keys as of a time (None: now). A record with a later time stays."""
        with self._core as pointer:
            call("hf_index_delete", pointer, texts(keys), len(keys), optional(time), None)

    def load(
        self,
        file: IO[Any],
        format: Optional[str] = None,
        *,
        straight: bool = False,
        refused: Optional[Callable[[int, str], Any]] = None,
    ) -> LoadReport:
        """Puts all rows of an open file: "usv", "csv", "tsv" or "ndjson" (default: by its name).
        `refused` is called with the line and the reason of each row that is not a record; without
        it, such a row raises InvalidError after the load."""
        report = _abi.hf_index_load_report.new()
        options = _abi.hf_index_load_options.new(straight=straight)
        guard = Guard(self._core)
        options.progress = guard.each(_abi.hf_index_load_options_progress, lambda so_far: True)
        if refused is not None:
            tell = refused
            options.refused = guard.tell(
                _abi.hf_index_load_options_refused,
                lambda line, why: tell(line, string(why.contents.why)),
            )
        try:
            guard.call(
                "hf_index_load",
                file.fileno(),
                file_format(format, file),
                ctypes.byref(options),
                ctypes.byref(report),
            )
        except InvalidError as error:
            if error is guard.error or refused is None or not report.refused:
                raise
        return LoadReport(**members_of(report))

    # ---- Reading --------------------------------------------------------------------------------

    def get(self, key: str) -> Record:
        """The record of a key. Raises NotFoundError if it has none."""
        record = ctypes.c_void_p()
        with self._core as pointer:
            call("hf_index_get", pointer, text(key), ctypes.byref(record))
            try:
                return self._record(record)
            finally:
                lib.hf_index_record_free(record)

    def get_many(self, keys: Iterable[str]) -> Dict[str, Record]:
        """The records of many keys in one pass. Keys without a record are left out."""
        asked, found = list(keys), {}
        first: List[Error] = []

        def one(number: int, record: Any, why: Any) -> None:
            if record is not None:
                found[asked[number]] = self._record(record)
            elif why.contents.status != _abi.HF_NOT_FOUND and not first:
                first.append(
                    error_of(why.contents.status, string(why.contents.why), "hf_index_get_many")
                )

        guard = Guard(self._core)
        try:
            guard.call(
                "hf_index_get_many",
                texts(asked),
                len(asked),
                guard.each(_abi.hf_index_get_many_each, one),
                None,
            )
        except NotFoundError:
            pass
        if first:
            raise first[0]
        return found

    def query(
        self,
        *,
        prefix: Optional[str] = None,
        since: Optional[str] = None,
        where: Filters = None,
        sort: Optional[str] = None,
        limit: int = 0,
        shard: Optional[str] = None,
    ) -> Cursor:
        """Iterates over the records that match: `prefix` of the key, not older than `since`, and
        all conditions `where`, such as "owner = ada" or ["size >= 10", "owner ~ a*"]. `sort` is
        FIELD[:number][:desc]."""
        return Cursor(self, _Query(None, prefix, since, where, shard, sort, limit))

    def count(
        self,
        *,
        prefix: Optional[str] = None,
        since: Optional[str] = None,
        where: Filters = None,
        shard: Optional[str] = None,
    ) -> int:
        """How many keys match."""
        found = ctypes.c_uint64()
        guard = Guard(self._core)
        query = _Query(guard, prefix, since, where, shard)
        plain = (
            prefix is None and since is None and not where and shard is None
        )  # then it reads less
        guard.call(
            "hf_index_count", None if plain else ctypes.byref(query.struct), ctypes.byref(found)
        )
        return found.value

    def export(
        self,
        file: IO[Any],
        format: Optional[str] = None,
        *,
        prefix: Optional[str] = None,
        since: Optional[str] = None,
        where: Filters = None,
    ) -> int:
        """Writes the matching records to an open file, and returns how many."""
        progress = _abi.hf_index_progress.new()
        file.flush()
        guard = Guard(self._core)
        query = _Query(guard, prefix, since, where, None)
        guard.call(
            "hf_index_export",
            ctypes.byref(query.struct),
            file.fileno(),
            file_format(format, file),
            ctypes.byref(progress),
        )
        return int(progress.records)

    # ---- Compiling ------------------------------------------------------------------------------

    def compile(
        self,
        *,
        watch: bool = False,
        shard: Optional[str] = None,
        ttl: float = 60,
        wait: float = 90,
        poll: float = 0,
        go_on: Optional[Callable[[], Any]] = None,
    ) -> CompileReport:
        """Compiles the inbox into shards. `watch`: until `go_on` returns False, or Ctrl-C. Any
        number of workers may compile."""
        report = _abi.hf_index_compile_report.new()
        options = _abi.hf_index_compile_options.new(
            watch=watch,
            shard=optional(shard),
            ttl_ms=milliseconds(ttl),
            wait_ms=milliseconds(wait),
            poll_ms=milliseconds(poll),
        )
        guard = Guard(self._core)
        options.go_on = guard.each(_abi.hf_index_compile_options_go_on, go_on or (lambda: True))
        guard.call("hf_index_compile", ctypes.byref(options), ctypes.byref(report))
        values = members_of(report)
        values["folded"] = Folded(**members_of(report.folded))
        return CompileReport(**values)

    def status(self) -> IndexStats:
        """How many entries wait, how many shards there are, and so on."""
        found = _abi.hf_index_stats.new()
        with self._core as pointer:
            call("hf_index_status", pointer, None, ctypes.byref(found))
        return IndexStats(**members_of(found))


__all__ = ["CompileReport", "Cursor", "Folded", "Index", "IndexStats", "LoadReport"]
