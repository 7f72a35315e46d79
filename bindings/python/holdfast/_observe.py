# SPDX-License-Identifier: Apache-2.0
"""_observe.py: events, counters, and lists of leases and keys. See holdfast/observe.h."""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from . import _abi
from ._errors import ClosedError, Error, Status
from ._handle import Core, client_thread
from ._library import call, lib, members_of, string
from ._wait import wait_for

if TYPE_CHECKING:
    from ._client import Client

EVENT_KINDS: Tuple[str, ...] = tuple(
    string(lib.hf_event_name(kind)) for kind in range(_abi.HF_EVENT_COUNT)
)


@dataclass(frozen=True)
class Event:
    """One event of a client (struct hf_event): `kind` is "granted", "renewed", "danger", "safe",
    "lost", "released", "taken_over", "conflict", "swept", "committed", "rolled_back" or "request".
    """

    kind: str
    at: float
    dropped: int
    key: str
    scope: str
    holder: str
    txn: str
    token: int
    count: int
    status: int
    why: str
    request: str
    bytes_sent: int
    bytes_received: int
    took_us: int
    ttl: float
    note: str


@dataclass(frozen=True)
class RequestStats:
    """Requests of one kind."""

    calls: int
    failed: int
    bytes: int


@dataclass(frozen=True)
class Stats:
    """The work of a client since it was opened (struct hf_stats)."""

    gets: RequestStats
    puts: RequestStats
    deletes: RequestStats
    lists: RequestStats
    file_gets: RequestStats
    file_puts: RequestStats
    conflicts: int
    granted: int
    renewed: int
    lost: int
    released: int
    taken_over: int
    swept: int
    committed: int
    rolled_back: int
    events_dropped: int
    depth: int


@dataclass(frozen=True)
class LeaseInfo:
    """A lease, or a waiter (struct hf_lease_info). `state` is computed: "active", "overdue",
    "over", "waiting" and so on."""

    state: str
    table: str
    id: str
    lease: str
    holder: str
    scopes: List[str]
    barrier: bool
    mode: str
    slots: int
    ttl: float
    output: str
    note: str
    place: int
    turn: bool
    poll: float
    token: int
    renewals: int
    acquired_at: float
    ends_at: float
    held: float
    remaining: float
    takeover: float
    takeover_by: str
    waiters: int


@dataclass(frozen=True)
class KeyStatus:
    """The holder of a key (struct hf_key_status)."""

    damaged: bool
    staged: bool
    held: bool
    holder: str
    token: int
    remaining: float
    waiters: int


def event_of(struct: Any) -> Event:
    values = members_of(struct)
    values["kind"] = string(lib.hf_event_name(struct.kind))
    values["request"] = (
        string(lib.hf_store_call_name(struct.request))
        if struct.kind == _abi.HF_EVENT_REQUEST
        else ""
    )
    return Event(**values)


def event_callback(client: Client) -> Any:
    """The callback of a client for its `_event`. It must not keep the client alive. An exception in
    it goes to sys.unraisablehook: no call waits for it."""
    this = weakref.ref(client)

    def tell(struct: Any) -> None:
        told_client = this()
        if told_client is not None and told_client._event is not None:
            told_client._event(event_of(struct))

    def told(_argument: Any, struct: Any) -> None:
        with client_thread():  # also when `tell` drops what may be the last reference
            tell(struct.contents)

    return _abi.hf_client_options_event(told)


def stats_of(struct: Any) -> Stats:
    values: Dict[str, Any] = members_of(struct)
    for name, value in values.items():
        if isinstance(value, ctypes.Structure):
            values[name] = RequestStats(**members_of(value))
    return Stats(**values)


def lease_of(struct: Any) -> LeaseInfo:
    values = members_of(struct, skip=("struct_size", "relation", "scope_count"))
    values["state"] = string(lib.hf_lease_state_name(struct.state))
    values["mode"] = string(lib.hf_mode_name(struct.mode))
    values["takeover_by"] = string(lib.hf_proof_name(struct.takeover_by))
    values["scopes"] = [string(struct.scopes[i]) for i in range(struct.scope_count)]
    return LeaseInfo(**values)


class Guard:
    """A call that takes callbacks, which are called while it runs.

    guard.each(kind, function) makes a callback whose function returns False to stop, and anything
    else to go on; guard.tell is for one without a result. guard.call() makes the call. An
    exception in a callback ends the call, and is raised by it. In the main thread, Ctrl-C ends the
    call as well: the call, and its callbacks with it, run in another thread, because a signal that
    arrives in the middle of a callback would be lost. So does closing the handle, which waits for
    the call: it raises ClosedError, because a listing that merely ended would look complete.
    """

    def __init__(self, core: Optional[Core] = None) -> None:
        self._core, self._stopped = core, False
        self.error: Optional[BaseException] = None
        self._keep: List[Any] = []  # the library may call a callback as long as the guard is kept

    def stop(self) -> None:
        """Ends the call at its next callback."""
        self._stopped = True

    def each(self, kind: Any, function: Callable[..., Any]) -> Any:
        def called(_argument: Any, *arguments: Any) -> bool:
            return self._run(function, arguments) is not False

        return self._kept(kind(called))

    def tell(self, kind: Any, function: Callable[..., Any]) -> Any:
        def called(_argument: Any, *arguments: Any) -> None:
            self._run(function, arguments)

        return self._kept(kind(called))

    def _run(self, function: Callable[..., Any], arguments: Tuple[Any, ...]) -> Any:
        """Runs a callback. False: the call must end."""
        if self._stopped:
            return False
        with client_thread():
            try:
                if self._core is not None and self._core.closed:
                    raise ClosedError(Status.INVALID, f"the {self._core.what} was closed", "")
                return function(*arguments)
            except BaseException as error:
                self.error = error
                self.stop()
                return False

    def _kept(self, callback: Any) -> Any:
        self._keep.append(callback)
        return callback

    def call(self, name: str, *arguments: Any) -> None:
        """Makes the call, with the pointer of the handle as its first argument."""
        try:
            wait_for(lambda: self._call(name, arguments), self.stop, lambda result: None)
        except Error:
            if self.error is None:
                raise
        if self.error is not None:
            raise self.error

    def _call(self, name: str, arguments: Tuple[Any, ...]) -> None:
        if self._core is None:
            call(name, *arguments)
        else:
            with self._core as pointer:
                call(name, pointer, *arguments)
