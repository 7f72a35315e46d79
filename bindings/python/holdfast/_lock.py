# SPDX-License-Identifier: Apache-2.0
"""_lock.py: locks and their leases. See holdfast/lock.h and holdfast/fenced.h."""

from __future__ import annotations

import ctypes
import threading
import weakref
from dataclasses import dataclass
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Iterable,
    List,
    Optional,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from . import _abi
from ._errors import Error, LostError, NotFoundError, Status
from ._handle import Core, Handle, client_thread
from ._library import (
    Buffer,
    blob,
    call,
    lib,
    members_of,
    milliseconds,
    optional,
    seconds,
    string,
    text,
)
from ._wait import in_thread, wait_for, wait_for_async

if TYPE_CHECKING:
    from ._client import Client

MODES = {"exclusive": _abi.HF_EXCLUSIVE, "shared": _abi.HF_SHARED, "slots": _abi.HF_SLOTS}
EVENTS = {_abi.HF_LOCK_DANGER: "danger", _abi.HF_LOCK_SAFE: "safe", _abi.HF_LOCK_GONE: "gone"}

L = TypeVar("L", bound="Leased")


class Default:
    """The default of a `wait`: what the object was made with."""


DEFAULT = Default()
Wait = Union[float, None, Default]


@dataclass(frozen=True)
class Blocker:
    """The holder that prevents a lock from being granted (struct hf_blocker)."""

    state: str
    scope: str
    holder: str
    barrier: bool
    token: int
    held: float
    remaining: float
    retry: float
    scopes_blocked: int


def free_leases(
    free: Callable[[Any], None], leases: Callable[[Any], Iterable[Tuple[Any, threading.Event]]]
) -> Callable[[Any], None]:
    """Frees a handle. A lease that it still holds ends by that, not by a release, so its event is
    set first. `leases` gives each struct hf_lock of the handle, and its event."""

    def freed(pointer: Any) -> None:
        for lock, gone in leases(pointer):
            if lib.hf_lock_check(lock, None) != _abi.HF_NOT_FOUND:
                gone.set()
        free(pointer)

    return freed


class Leased(Handle):
    """What a lock and a key have in common: a lease that is acquired, checked and released.

    `gone` is a threading.Event that is set when the lease ends before it is released, also if that
    is because the object or its client was closed.
    """

    _wait: Optional[float]
    _adopted = False

    def _prepare(self, notify: Optional[Callable[[Any, str], None]]) -> Any:
        """The callback for the events of the lease. The library keeps it, so it must not keep the
        object alive, nor `notify`, which may refer to the object."""
        self.gone, self._notify = threading.Event(), notify
        gone, this = self.gone, weakref.ref(self)

        def tell(event: int) -> None:
            handle = this()
            if handle is not None and handle._notify is not None:
                handle._notify(handle, EVENTS[event])

        def told(_argument: Any, _lock: Any, event: int) -> None:
            with client_thread():  # also when `tell` drops what may be the last reference
                if event == _abi.HF_LOCK_GONE:
                    gone.set()
                tell(event)

        return _abi.hf_lock_options_notify(told)

    # ---- What differs ---------------------------------------------------------------------------

    def _lock(self) -> Any:
        """The struct hf_lock. The core must be entered."""
        raise NotImplementedError

    def _acquire(self, wait_ms: int) -> None:
        raise NotImplementedError

    def release(self) -> None:
        raise NotImplementedError

    # ---- Acquiring ------------------------------------------------------------------------------

    def _wait_ms(self, wait: Wait) -> int:
        return milliseconds(self._wait if isinstance(wait, Default) else wait)

    def _undo(self, _result: None) -> None:
        try:
            self.release()
        except Error:
            pass  # an interrupted acquire: the lease expires on its own

    def _acquire_now(self, wait_ms: int) -> None:
        with self._core:
            if lib.hf_lock_check(self._lock(), None) == _abi.HF_NOT_FOUND:
                self.gone.clear()  # a lease that has ended stays gone until it is released
        self._acquire(wait_ms)

    def acquire(self, wait: Wait = DEFAULT) -> None:
        """Acquires the lease, waiting in the queue for up to `wait` seconds.

        0: only if it is free now, else HeldError; None: for ever. Ctrl-C ends the wait.
        Acquisitions are counted: release as many times.
        """
        wait_ms = self._wait_ms(wait)
        wait_for(lambda: self._acquire_now(wait_ms), self._core.interrupt, self._undo)

    async def acquire_async(self, wait: Wait = DEFAULT) -> None:
        """Like acquire, for asyncio. If the task is cancelled, the wait ends."""
        wait_ms = self._wait_ms(wait)
        await wait_for_async(lambda: self._acquire_now(wait_ms), self._core.interrupt, self._undo)

    async def release_async(self) -> None:
        """Like release, for asyncio."""
        await in_thread(self.release)

    def interrupt(self) -> None:
        """Ends an acquire that waits in another thread, which raises CancelledError. Has no effect
        if none is waiting."""
        self._core.interrupt()

    # ---- The lease ------------------------------------------------------------------------------

    def check(self) -> None:
        """Raises LostError (or ExpiredError, which is one) if the lease has ended, and
        NotFoundError if there is none. Makes no request: call it before each critical step."""
        with self._core:
            lock = self._lock()
            if lib.hf_lock_check(lock, None) != _abi.HF_OK:
                call("hf_lock_check", lock)

    @property
    def held(self) -> bool:
        """Whether the lease is certain to be held now."""
        with self._core:
            return bool(lib.hf_lock_check(self._lock(), None) == _abi.HF_OK)

    @property
    def token(self) -> int:
        """The fencing token of the last grant: higher than that of every earlier grant. 0: none
        yet."""
        with self._core:
            return int(lib.hf_lock_token(self._lock()))

    @property
    def remaining(self) -> float:
        """How many seconds the lease is certain to stay valid without a renewal; 0 if it is not
        held."""
        with self._core:
            return seconds(lib.hf_lock_remaining_ms(self._lock()))

    @property
    def ttl(self) -> float:
        """The ttl of the lease, or the one that will be requested, in seconds."""
        with self._core:
            return seconds(lib.hf_lock_ttl_ms(self._lock()))

    def text(self) -> str:
        """The lease as one word, for another process: Client.adopt."""
        word = ctypes.create_string_buffer(_abi.HF_LEASE_TEXT_MAX)
        with self._core:
            call("hf_lock_text", self._lock(), word)
        return string(word.value)

    # ---- with -----------------------------------------------------------------------------------

    def _leave(self, failed: bool) -> None:
        self.release()

    def _exit(self, error: Optional[BaseException]) -> None:
        if self.closed:
            if error is None and self._core.closed_elsewhere:
                raise LostError(
                    Status.LOST, "closed with its client before the end of the work", ""
                )
            return  # closed or detached by the body
        try:
            self._leave(error is not None)
        except Error:
            if error is None:
                raise
            # The exception of the body says more than that of the release after it.

    def _must_acquire(self) -> bool:
        """Whether `with` acquires: an adopted lease is held already."""
        return not self._adopted

    def __enter__(self: L) -> L:
        if self._must_acquire():
            self.acquire()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._exit(error)

    async def __aenter__(self: L) -> L:
        if self._must_acquire():
            await self.acquire_async()
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await in_thread(lambda: self._exit(error))


class Lock(Leased):
    """A lock, held or not. Made by Client.lock and Client.adopt.

    `with lock:` acquires it and releases it. With `once_per`, the end of the body completes the
    work, and an exception records it as failed.
    """

    def __init__(
        self,
        client: Client,
        make: str,
        what: Any,
        options: Any,
        wait: Optional[float],
        notify: Optional[Callable[[Any, str], None]],
    ) -> None:
        self.client = client
        self._wait, self._once = wait, options.once_per_ms > 0
        self._adopted = make == "hf_lock_adopt"
        options.notify = told = self._prepare(notify)
        pointer = ctypes.c_void_p()
        with client._core as owner:
            call(make, owner, *what, ctypes.byref(options), ctypes.byref(pointer))
        gone = self.gone
        free = free_leases(lib.hf_lock_free, lambda lock: [(lock, gone)])
        core = Core(pointer, free, "lock", client._core, lib.hf_lock_interrupt)
        core.keep.append(told)
        self._own(core)

    def _lock(self) -> Any:
        return self._core.pointer

    def _acquire(self, wait_ms: int) -> None:
        with self._core as pointer:
            call("hf_lock_acquire", pointer, wait_ms)

    def _leave(self, failed: bool) -> None:
        if self._once:
            self.fail() if failed else self.complete()
        else:
            self.release()

    def release(self) -> None:
        """Releases the lock. Raises LostError if the lease had ended: the work may have overlapped
        with another holder's."""
        with self._core as pointer:
            call("hf_lock_release", pointer)

    def complete(self, note: Optional[str] = None) -> None:
        """Releases the lock, and records the work as done, for once_per. `note` is JSON."""
        with self._core as pointer:
            call("hf_lock_complete", pointer, optional(note))

    def fail(self, note: Optional[str] = None) -> None:
        """Releases the lock, and records the work as failed, for display."""
        with self._core as pointer:
            call("hf_lock_fail", pointer, optional(note))

    def renew(self) -> None:
        """Renews the lease now. Only needed with renew=False: otherwise it happens in the
        background."""
        with self._core as pointer:
            call("hf_lock_renew", pointer)

    def detach(self) -> None:
        """Closes the object, but leaves the lease in place for the process that has its text."""
        self._core.close_by(lib.hf_lock_detach)

    @property
    def scopes(self) -> List[str]:
        """What is locked, in full: ["named:deploy"]."""
        found: List[str] = []
        scope = ctypes.create_string_buffer(_abi.HF_SCOPE_TEXT_MAX)
        with self._core as pointer:
            while lib.hf_lock_scope(pointer, len(found), scope, None) == _abi.HF_OK:
                found.append(string(scope.value))
        return found

    def blocker(self) -> Optional[Blocker]:
        """After HeldError, TimeoutError or AlreadyError: who holds the lock, or did the work.
        None: nobody any more. Reads the table once."""
        found = _abi.hf_blocker.new()
        try:
            with self._core as pointer:
                call("hf_lock_blocker", pointer, ctypes.byref(found))
        except NotFoundError:
            return None
        values = members_of(found)
        values["state"] = string(lib.hf_lease_state_name(found.state))
        return Blocker(**values)

    # ---- Fenced objects -------------------------------------------------------------------------

    def fenced_put(self, key: str, data: Buffer) -> None:
        """Writes an object that refuses stale tokens. Raises FencedError if a later holder has
        written."""
        body = blob(data)
        with self._core as pointer:
            call("hf_fenced_put", pointer, text(key), body, len(body))

    def fenced_delete(self, key: str) -> None:
        """Deletes a fenced object but keeps its fence."""
        with self._core as pointer:
            call("hf_fenced_delete", pointer, text(key))
