# SPDX-License-Identifier: Apache-2.0
"""_key.py: keys with state, and transactions. See holdfast/key.h."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Type,
)

from . import _abi
from ._errors import ClosedError, Error, InvalidError, Status, UnsureError, error_of
from ._handle import Core, Handle, client_thread
from ._library import (
    Buffer,
    blob,
    call,
    lib,
    members_of,
    milliseconds,
    optional,
    status_of,
    string,
    take_bytes,
    text,
    texts,
)
from ._lock import Leased, Wait, free_leases
from ._wait import in_thread, wait_for, wait_for_async

if TYPE_CHECKING:
    from ._client import Client

SIZE_MAX = 2**63 - 1


@dataclass(frozen=True)
class KeyInfo:
    """One version of a key (struct hf_key_info). `outcome` says why a call was refused, such as
    "version_conflict"; "none": it was not."""

    outcome: str
    version: int
    etag: str
    size: int
    token: int
    updated: float
    removed: bool
    txn: str


@dataclass(frozen=True)
class State(KeyInfo):
    """The state of a key, and its version."""

    data: bytes


def info_values(info: Any) -> Dict[str, Any]:
    values = members_of(info)
    values["outcome"] = string(lib.hf_key_outcome_name(info.outcome))
    return values


def call_with_info(name: str, *arguments: Any) -> KeyInfo:
    """Makes a call that takes a struct hf_key_info before the error."""
    info = _abi.hf_key_info.new()
    status, why = status_of(name, *arguments, ctypes.byref(info))
    found = KeyInfo(**info_values(info))
    if status != _abi.HF_OK:
        raise error_of(status, why, name, found)
    return found


def condition(version: Optional[int], etag: Optional[str]) -> Any:
    """The conditions for a change, or None."""
    if version is None and etag is None:
        return None
    return ctypes.pointer(
        _abi.hf_key_if.new(
            version_set=version is not None, version=version or 0, etag=optional(etag)
        )
    )


def read_key(client: Client, name: str, size_max: Optional[int]) -> State:
    pointer, size, info = ctypes.c_void_p(), ctypes.c_size_t(), _abi.hf_key_info.new()
    with client._core as owner:
        status, why = status_of(
            "hf_key_get",
            owner,
            text(name),
            SIZE_MAX if size_max is None else size_max,
            ctypes.byref(pointer),
            ctypes.byref(size),
            ctypes.byref(info),
        )
    if status != _abi.HF_OK:
        raise error_of(status, why, "hf_key_get", KeyInfo(**info_values(info)))
    return State(data=take_bytes(pointer, size.value), **info_values(info))


def change_key(
    client: Client,
    name: str,
    data: Optional[Buffer],
    version: Optional[int],
    etag: Optional[str],
    wait: Optional[float],
    ttl: float,
) -> KeyInfo:
    """Changes a key without a lease of the caller. The library's own wait cannot be interrupted,
    so a key that is held is acquired by a handle, whose wait can."""
    options = _abi.hf_key_change_options.new(
        removes=data is None, when=condition(version, etag), ttl_ms=milliseconds(ttl)
    )
    body = b"" if data is None else blob(data)
    try:
        with client._core as owner:
            return call_with_info(
                "hf_key_change", owner, text(name), body, len(body), ctypes.byref(options)
            )
    except Error as error:
        if error.status != Status.HELD or wait == 0:
            raise
    key = client.key(name, wait=wait, ttl=ttl)
    key.acquire()
    try:
        if data is None:
            return key.remove(version=version, etag=etag)
        return key.update(data, version=version, etag=etag)
    finally:
        key._undo(None)  # the change is made or refused, however the release ends
        key.close()


def interrupt_key(pointer: Any) -> None:
    lib.hf_lock_interrupt(lib.hf_key_lock(pointer))


class Key(Leased):
    """A key: a name with a lock and a state. Made by Client.key, and by Txn.acquire.

    `with key:` acquires it, and releases it at the end. Changes with staged=True are published by
    the release, and dropped if the body raises.
    """

    txn: Optional[Txn] = None

    def __init__(
        self,
        client: Client,
        make: str,
        name: str,
        options: Any,
        wait: Optional[float],
        notify: Optional[Callable[[Any, str], None]],
    ) -> None:
        self.client, self._wait = client, wait
        self._adopted = make == "hf_key_adopt"
        options.notify = told = self._prepare(notify)
        self._pointer = ctypes.c_void_p()
        with client._core as owner:
            call(make, owner, text(name), ctypes.byref(options), ctypes.byref(self._pointer))
        gone = self.gone
        free = free_leases(lib.hf_key_free, lambda key: [(lib.hf_key_lock(key), gone)])
        core = Core(self._pointer, free, "key", client._core, interrupt_key)
        core.keep.append(told)
        self._own(core)

    @property
    def name(self) -> str:
        """The name of the key."""
        with self._core:
            return string(lib.hf_key_name(self._pointer))

    def _lock(self) -> Any:
        return lib.hf_key_lock(self._pointer)

    def _acquire(self, wait_ms: int) -> None:
        with self._core:
            call_with_info("hf_key_acquire", self._pointer, wait_ms)

    def _leave(self, failed: bool) -> None:
        self.release(commit=not failed)

    def release(self, commit: bool = True) -> None:
        """Releases the key. Staged changes are published, or dropped if `commit` is false. In a
        transaction, this commits or rolls back the whole transaction."""
        with self._core:
            call("hf_key_release", self._pointer, _abi.HF_COMMIT if commit else _abi.HF_ROLLBACK)

    def renew(self) -> None:
        """Renews the lease now."""
        with self._core:
            call("hf_key_keepalive", self._pointer)

    def detach(self) -> None:
        """Closes the object, but leaves the lease in place for the process that has its text."""
        self._core.close_by(lib.hf_key_detach)

    def get(self, size_max: Optional[int] = None) -> State:
        """Reads the key as every client sees it, without staged changes."""
        return read_key(self.client, self.name, size_max)

    @property
    def seen(self) -> KeyInfo:
        """The version that the key had when it was last acquired."""
        with self._core:
            return call_with_info("hf_key_seen", self._pointer)

    def update(
        self, data: Buffer, *, version: Optional[int] = None, etag: Optional[str] = None
    ) -> KeyInfo:
        """Changes the state, at once or, in a transaction or with staged=True, at the commit.

        With `version` or `etag`, only if the key has it, else ConflictError; version=0: only if it
        has no state.
        """
        body = blob(data)
        with self._core:
            return call_with_info(
                "hf_key_update", self._pointer, body, len(body), condition(version, etag)
            )

    def remove(self, *, version: Optional[int] = None, etag: Optional[str] = None) -> KeyInfo:
        """Removes the state."""
        with self._core:
            return call_with_info("hf_key_remove", self._pointer, condition(version, etag))


class TxnKey(Key):
    """A key of a transaction, which acquires it, owns it and releases it."""

    def __init__(self, txn: Txn, pointer: Any, gone: _Gone) -> None:
        self.client, self.txn = txn.client, txn
        self._core, self._pointer = txn._core, pointer
        self.gone = gone.event_of(self._lock())
        txn._leases.append((self._lock(), self.gone))

    def _refuse(self) -> InvalidError:
        return InvalidError(Status.INVALID, "the key belongs to a transaction", "")

    def _must_acquire(self) -> bool:
        raise self._refuse()

    def _wait_ms(self, wait: Wait) -> int:
        raise self._refuse()

    def detach(self) -> None:
        raise self._refuse()

    def close(self) -> None:
        raise self._refuse()


class _Gone:
    """Sets the event of each key of a transaction whose lease ends."""

    def __init__(self) -> None:
        self._events: Dict[Any, threading.Event] = {}

    def event_of(self, lock: Any) -> threading.Event:
        return self._events.setdefault(lock, threading.Event())

    def told(self, _argument: Any, lock: Any, event: int) -> None:
        with client_thread():
            if event == _abi.HF_LOCK_GONE:
                self.event_of(lock).set()


class Txn(Handle):
    """A transaction: changes to several keys, all or none. Made by Client.txn.

    `with client.txn() as txn:` commits at the end, and rolls back if the body raises. If the
    commit raises UnsureError, the transaction stays open: call commit() again.
    """

    def __init__(self, client: Client, id: Optional[str]) -> None:
        self.client = client
        self.decision: Optional[str] = None
        options, pointer = _abi.hf_txn_options.new(id=optional(id)), ctypes.c_void_p()
        with client._core as owner:
            call("hf_txn_begin", owner, ctypes.byref(options), ctypes.byref(pointer))
        self._leases: List[Tuple[Any, threading.Event]] = []
        leases = self._leases
        free = free_leases(lib.hf_txn_free, lambda txn: leases)
        self._own(Core(pointer, free, "transaction", client._core, lib.hf_txn_interrupt))

    @property
    def id(self) -> str:
        """The id by which other processes can join: Client.txn(id=...)."""
        with self._core as pointer:
            return string(lib.hf_txn_id(pointer))

    # ---- Keys -----------------------------------------------------------------------------------

    def _acquire(self, names: Sequence[str], options: Any, wait_ms: int) -> List[Key]:
        pointers, gone = (ctypes.c_void_p * len(names))(), _Gone()
        options.notify = told = _abi.hf_key_options_notify(gone.told)
        self._core.keep.append(told)
        with self._core as pointer:
            call(
                "hf_txn_acquire",
                pointer,
                texts(names),
                len(names),
                ctypes.byref(options),
                wait_ms,
                pointers,
            )
            return [TxnKey(self, ctypes.c_void_p(found), gone) for found in pointers]

    def acquire(self, *names: str, wait: Optional[float] = None, ttl: float = 30) -> List[Key]:
        """Acquires keys for the transaction, all or none, waiting for up to `wait` seconds (None:
        for ever). Ctrl-C ends the wait. The keys are in the order of the names."""
        options, wait_ms = _abi.hf_key_options.new(ttl_ms=milliseconds(ttl)), milliseconds(wait)
        return wait_for(
            lambda: self._acquire(names, options, wait_ms), self._core.interrupt, lambda keys: None
        )

    async def acquire_async(
        self, *names: str, wait: Optional[float] = None, ttl: float = 30
    ) -> List[Key]:
        """Like acquire, for asyncio. If the task is cancelled, the wait ends."""
        options, wait_ms = _abi.hf_key_options.new(ttl_ms=milliseconds(ttl)), milliseconds(wait)
        return await wait_for_async(
            lambda: self._acquire(names, options, wait_ms), self._core.interrupt, lambda keys: None
        )

    def interrupt(self) -> None:
        """Ends an acquire that waits in another thread, which raises CancelledError."""
        self._core.interrupt()

    def update(self, changes: Mapping[Key, Optional[Buffer]]) -> None:
        """Changes several keys at the same time; None removes a state. Raises the first refusal."""
        array = (_abi.hf_txn_change * len(changes))()
        kept: List[Any] = []
        for change, (key, data) in zip(array, changes.items()):
            if key.txn is not self:
                raise InvalidError(Status.INVALID, "the key belongs to another transaction", "")
            content = b"" if data is None else blob(data)
            body = ctypes.create_string_buffer(content, max(1, len(content)))
            kept.append(body)
            change.key, change.removes = key._pointer, data is None
            change.data, change.size = ctypes.cast(body, ctypes.c_void_p), len(content)
        with self._core as pointer:
            call("hf_txn_update", pointer, array, len(changes))

    # ---- The end --------------------------------------------------------------------------------

    def _decide(self, name: str) -> None:
        decision = ctypes.c_int(-1)
        with self._core as pointer:
            try:
                call(name, pointer, ctypes.byref(decision))
            finally:
                self.decision = {_abi.HF_COMMIT: "commit", _abi.HF_ROLLBACK: "rollback"}.get(
                    decision.value
                )

    def commit(self) -> None:
        """Commits the transaction, and releases its keys. Raises LostError if a lease had ended:
        then it was rolled back. Raises UnsureError if the store did not reply: call again."""
        self._decide("hf_txn_commit")

    def rollback(self) -> None:
        """Drops all changes, and releases the keys."""
        self._decide("hf_txn_rollback")

    def __enter__(self) -> Txn:
        with self._core:
            return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self.closed:
            if error is None and self.decision is None and self._core.closed_elsewhere:
                raise ClosedError(
                    Status.INVALID, "the transaction was closed before its commit", ""
                )
            return  # closed by the body
        if self.decision is None and error is None:
            try:
                self.commit()
            except UnsureError:
                raise  # still open: commit() again tells the decision
            except Error:
                self.close()
                raise
        elif self.decision is None:
            try:
                self.rollback()
            except Error:
                pass  # the exception of the body says more, and nothing was committed
        self.close()

    async def __aenter__(self) -> Txn:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await in_thread(lambda: self.__exit__(kind, error, trace))
