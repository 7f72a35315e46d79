# SPDX-License-Identifier: Apache-2.0
"""_client.py: the client, from which everything else is made. See holdfast/base.h."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, Iterable, List, Mapping, Optional, Sequence, Tuple

from . import _abi
from ._compact import Compact
from ._elect import Member, MemberInfo, members_of_group
from ._errors import InvalidError, Status
from ._handle import ClosingHandle, Core
from ._index import Index
from ._key import Key, KeyInfo, State, Txn, change_key, condition, info_values, read_key
from ._library import (
    Buffer,
    blob,
    call,
    lib,
    members_of,
    milliseconds,
    optional,
    string,
    take_bytes,
    text,
    texts,
)
from ._lock import MODES, Lock
from ._merge import choose
from ._observe import (
    EVENT_KINDS,
    Event,
    Guard,
    KeyStatus,
    LeaseInfo,
    Stats,
    event_callback,
    lease_of,
    stats_of,
)


class Client(ClosingHandle):
    """A client of one store and one namespace of locks. Made by open(). Any number of threads may
    use it. close() releases every lease that is still held."""

    def __init__(self, url: str, options: Any, event: Optional[Callable[[Event], Any]]) -> None:
        self.url, self._event = url, event
        pointer, keep = ctypes.c_void_p(), []
        if event is not None:
            options.event = told = event_callback(self)
            keep.append(told)
        call("hf_client_open", text(url), ctypes.byref(options), ctypes.byref(pointer))
        core = Core(pointer, lib.hf_client_close, "client")
        core.keep = keep
        self._own(core)

    # ---- Locks ----------------------------------------------------------------------------------

    def lock(
        self,
        *scopes: str,
        wait: Optional[float] = None,
        ttl: float = 30,
        mode: str = "exclusive",
        slots: int = 0,
        renew: bool = True,
        poll: float = 0,
        once_per: float = 0,
        once_slack: float = 0,
        note: Optional[str] = None,
        notify: Optional[Callable[[Lock, str], Any]] = None,
    ) -> Lock:
        """A lock on a scope, or on several scopes: all or none. Makes no request.

        `wait` is how long acquire and `with` wait for it (None: for ever; 0: not at all). `ttl` is
        how long others wait if this process dies. `mode` is "exclusive", "shared" or "slots", with
        the number of `slots`. `once_per`: AlreadyError if the work was completed within this
        period. `notify` is called with the lock and "danger", "safe" or "gone", by a thread of the
        client; it must not block, and may only use check, held, token, remaining and ttl.
        Durations are seconds.
        """
        options = _abi.hf_lock_options.new(
            ttl_ms=milliseconds(ttl),
            mode=choose("mode", mode, MODES),
            slots=slots,
            no_renewal=not renew,
            poll_ms=milliseconds(poll),
            once_per_ms=milliseconds(once_per),
            once_slack_ms=milliseconds(once_slack),
            note=optional(note),
        )
        if len(scopes) == 1:
            return Lock(self, "hf_lock_new", (text(scopes[0]),), options, wait, notify)
        return Lock(self, "hf_lock_new_many", (texts(scopes), len(scopes)), options, wait, notify)

    def adopt(
        self, lease: str, *, renew: bool = True, notify: Optional[Callable[[Lock, str], Any]] = None
    ) -> Lock:
        """A lock that holds the lease that another process passed on as text (Lock.text). `with`
        does not acquire it again; it releases it at the end, unless it was detached."""
        options = _abi.hf_lock_options.new(no_renewal=not renew)
        return Lock(self, "hf_lock_adopt", (text(lease),), options, None, notify)

    def break_lease(self, lease: str, by: str, reason: str) -> None:
        """Ends the lease of another holder, given as text. `by` and `reason` are recorded."""
        with self._core as pointer:
            call("hf_break", pointer, text(lease), text(by), text(reason))

    def locks(
        self, start: str = "", *, ended: bool = False, waiting: bool = False
    ) -> List[LeaseInfo]:
        """The leases whose scope starts with `start`, and with `waiting` their queues."""
        found: List[LeaseInfo] = []
        options = _abi.hf_list_options.new(ended=ended, waiting=waiting)
        guard = Guard(self._core)
        options.proceed = guard.each(_abi.hf_list_options_proceed, lambda: True)
        each = guard.each(_abi.hf_each_lease, lambda lease: found.append(lease_of(lease.contents)))
        guard.call("hf_locks_list", text(start), ctypes.byref(options), each, None)
        return found

    def fenced_get(self, key: str, size_max: Optional[int] = None) -> Tuple[bytes, int]:
        """The bytes of a fenced object, and the token with which it was written."""
        data, size, token = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_uint64()
        with self._core as pointer:
            call(
                "hf_fenced_get",
                pointer,
                text(key),
                2**63 - 1 if size_max is None else size_max,
                ctypes.byref(data),
                ctypes.byref(size),
                ctypes.byref(token),
            )
        return take_bytes(data, size.value), token.value

    # ---- Keys -----------------------------------------------------------------------------------

    def key(
        self,
        name: str,
        *,
        wait: Optional[float] = None,
        ttl: float = 30,
        renew: bool = True,
        poll: float = 0,
        staged: bool = False,
        note: Optional[str] = None,
        notify: Optional[Callable[[Key, str], Any]] = None,
    ) -> Key:
        """A key that can be acquired and changed. `staged`: its changes are published together
        when it is released. The rest is as for lock."""
        options = _abi.hf_key_options.new(
            ttl_ms=milliseconds(ttl),
            no_renewal=not renew,
            poll_ms=milliseconds(poll),
            staged=staged,
            note=optional(note),
        )
        return Key(self, "hf_key_new", name, options, wait, notify)

    def adopt_key(
        self,
        lease: str,
        *,
        renew: bool = True,
        staged: bool = False,
        notify: Optional[Callable[[Key, str], Any]] = None,
    ) -> Key:
        """A key whose lease another process passed on as text. Otherwise like adopt."""
        options = _abi.hf_key_options.new(no_renewal=not renew, staged=staged)
        return Key(self, "hf_key_adopt", lease, options, None, notify)

    def get(self, name: str, size_max: Optional[int] = None) -> State:
        """Reads a key; no lease is needed. Raises NotFoundError, whose `info` has the version, if
        it has no state."""
        return read_key(self, name, size_max)

    def change(
        self,
        name: str,
        data: Optional[Buffer],
        *,
        version: Optional[int] = None,
        etag: Optional[str] = None,
        wait: Optional[float] = 0,
        ttl: float = 30,
    ) -> KeyInfo:
        """Changes a key that this process does not hold, in one write if nobody holds it. None
        removes the state. With `version` or `etag`, only if the key has it; version=0: only if it
        has no state.

        Raises HeldError if the key is held, or TimeoutError if it is still held after `wait`
        seconds.
        """
        return change_key(self, name, data, version, etag, wait, ttl)

    def change_many(
        self,
        changes: Mapping[str, Optional[Buffer]],
        *,
        versions: Optional[Mapping[str, int]] = None,
    ) -> List[KeyInfo]:
        """Changes up to 32 keys that nobody holds in one step, all or none; on sqlite: stores
        only. Elsewhere, use a transaction."""
        writes = (_abi.hf_key_write * len(changes))()
        infos = (_abi.hf_key_info * len(changes))(*(_abi.hf_key_info.new() for _ in changes))
        keep: List[Any] = []
        for write, (name, data) in zip(writes, changes.items()):
            content = b"" if data is None else blob(data)
            body = ctypes.create_string_buffer(content, max(1, len(content)))
            keep.append(body)
            write.name, write.removes, write.size = text(name), data is None, len(content)
            write.data = ctypes.cast(body, ctypes.c_void_p)
            when = condition((versions or {}).get(name), None)
            if when is not None:
                write.when = when
        with self._core as pointer:
            call("hf_key_change_many", pointer, writes, len(changes), 0, infos)
        return [KeyInfo(**info_values(info)) for info in infos]

    def keys(self, prefix: str = "") -> List[Tuple[str, KeyInfo, KeyStatus]]:
        """The name, version and holder of each key whose name starts with `prefix`, in order."""
        found: List[Tuple[str, KeyInfo, KeyStatus]] = []

        def one(name: bytes, info: Any, status: Any) -> None:
            found.append(
                (
                    string(name),
                    KeyInfo(**info_values(info.contents)),
                    KeyStatus(**members_of(status.contents)),
                )
            )

        options = _abi.hf_list_options.new()
        guard = Guard(self._core)
        options.proceed = guard.each(_abi.hf_list_options_proceed, lambda: True)
        guard.call(
            "hf_keys_list",
            text(prefix),
            ctypes.byref(options),
            guard.each(_abi.hf_each_key, one),
            None,
        )
        return found

    def describe(self, name: str) -> Tuple[KeyInfo, KeyStatus]:
        """The version of a key, and its holder."""
        info, status = _abi.hf_key_info.new(), _abi.hf_key_status.new()
        with self._core as pointer:
            call("hf_key_describe", pointer, text(name), ctypes.byref(info), ctypes.byref(status))
        return KeyInfo(**info_values(info)), KeyStatus(**members_of(status))

    def txn(self, *, id: Optional[str] = None) -> Txn:
        """A transaction, or with `id` one that another process began, by txn_open or otherwise. A
        joined transaction that is closed without a decision goes on, and so do its leases."""
        return Txn(self, id)

    def txn_open(self) -> str:
        """Begins a transaction that any process may join and decide, and returns its id."""
        id = ctypes.create_string_buffer(_abi.HF_TXN_ID_SIZE + 1)
        with self._core as pointer:
            call("hf_txn_open", pointer, id)
        return string(id.value)

    def txn_decide(self, id: str, commit: bool = True) -> None:
        """Commits a transaction that was begun by txn_open, or rolls it back. Raises MismatchError
        if it was decided the other way."""
        decision = _abi.HF_COMMIT if commit else _abi.HF_ROLLBACK
        with self._core as pointer:
            call("hf_txn_decide", pointer, text(id), decision, None)

    # ---- Indexes, partitions, groups ------------------------------------------------------------

    def index(self, name: str) -> Index:
        """Opens an index."""
        return Index._open(self, name)

    def create_index(
        self,
        name: str,
        fields: Sequence[str],
        key: str,
        time: str,
        *,
        digits: int = 0,
        foreign: bool = True,
        zone: Optional[str] = None,
        plain: bool = False,
    ) -> Index:
        """Creates an index with these fields, one of which holds the key and one the timestamp of
        a record, and opens it. An existing index is opened, and extended if there are more fields
        at the end.
        """
        options = _abi.hf_index_options.new(
            fields=texts(fields),
            field_count=len(fields),
            key=text(key),
            time=text(time),
            digits=digits,
            no_foreign=not foreign,
            zone=optional(zone),
            plain=plain,
        )
        return Index._create(self, name, options)

    def indexes(self) -> List[str]:
        """The names of all indexes."""
        found: List[str] = []
        guard = Guard(self._core)
        guard.call(
            "hf_index_list",
            guard.each(_abi.hf_index_list_each, lambda name: found.append(string(name))),
            None,
        )
        return found

    def compact(
        self,
        partition: str = "default",
        *,
        allow_exec: Iterable[str] = (),
        scratch_folder: Optional[str] = None,
    ) -> Compact:
        """A handle to a partition of chunks, which workers merge. Makes no request."""
        return Compact(self, partition, allow_exec, scratch_folder)

    def elect_join(
        self,
        group: str,
        *,
        name: Optional[str] = None,
        label: Optional[str] = None,
        beat: float = 0,
        by_hand: bool = False,
    ) -> Member:
        """Joins a group, and sends heartbeats in the background until it is left."""
        return Member(self, group, name, label, beat, by_hand)

    def elect_members(self, group: str, *, beat: float = 0) -> List[MemberInfo]:
        """All members of a group, by name, whether or not this client has joined it."""
        return members_of_group(self, group, beat)

    # ---- Events and counters --------------------------------------------------------------------

    def choose_events(self, *kinds: str) -> None:
        """Chooses the kinds of events that the callback gets from now on, such as "granted" and
        "lost". At first, it gets all of them."""
        numbers = {kind: number for number, kind in enumerate(EVENT_KINDS)}
        bits = sum(1 << choose("kind of event", kind, numbers) for kind in set(kinds))
        with self._core as pointer:
            call("hf_client_choose_events", pointer, bits)

    def stats(self) -> Stats:
        """The counters of the client."""
        found = _abi.hf_stats.new()
        with self._core as pointer:
            call("hf_client_stats", pointer, ctypes.byref(found))
        return stats_of(found)


def open(
    url: Optional[str] = None,
    *,
    ns: Optional[str] = None,
    holder: Optional[str] = None,
    ttl_max: float = 0,
    skew_tolerance: Optional[float] = None,
    takeover_observed: bool = False,
    event: Optional[Callable[[Event], Any]] = None,
) -> Client:
    """Opens a client on a store: "sqlite:FILE", "dir:PATH", "s3://BUCKET/PREFIX", "mem:", or the
    URL of a server. Without a URL, the one in HOLDFAST_STORE.

    `ns` is the namespace of the locks, and `holder` a label that others see. `event` is called
    with each Event, by a thread of the client, one at a time; it may use the client, but closing
    anything in it takes effect only after it has returned. The rest is as in struct
    hf_client_options. Durations are seconds.
    """
    if url is None:
        url = os.environ.get("HOLDFAST_STORE")
        if not url:
            raise InvalidError(Status.INVALID, "no store: pass a URL, or set HOLDFAST_STORE", "")
    options = _abi.hf_client_options.new(
        ns=optional(ns),
        holder=optional(holder),
        ttl_max_ms=milliseconds(ttl_max),
        skew_tolerance_ms=-1 if skew_tolerance is None else milliseconds(skew_tolerance),
        takeover_observed=takeover_observed,
    )
    return Client(url, options, event)
