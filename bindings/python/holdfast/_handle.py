# SPDX-License-Identifier: Apache-2.0
"""_handle.py: the lifetime of a handle of the C library.

C says: any thread may use a handle, but freeing it must be the last call, and a child process must
not use the handles of its parent. A Core keeps both rules:

- Every call enters the core of its handle and leaves it afterwards. close() lets nobody enter any
  more, interrupts calls that wait, waits until all have left, and only then frees the handle.
- close() of a handle in one of its own callbacks cannot wait: the last call to leave frees it. Any
  other close() returns when the handle has been freed, also if another thread frees it.
- A callback may run in a thread of the client, so it must not free anything; another thread does.
- Closing a handle first closes those that were made from it.
- In a forked child, entering raises, and freeing does nothing: the lease is the parent's.
- A handle that is no longer referenced is closed, and so is every handle when Python exits. A
  child of multiprocessing ends in a way of its own, by which its clients are closed.
- A handle that was closed in such a way, or with its parent, knows it: `closed_elsewhere`.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from types import TracebackType
from typing import Any, Callable, List, Optional, Set, Type, TypeVar

from ._errors import ClosedError, Status

_generation = 0  # how many forks lie between the first process and this one
_local = threading.local()
INTERRUPT_SECONDS = 0.02  # how often a wait is interrupted until it has ended

H = TypeVar("H", bound="Handle")


def _forked() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_forked)


def in_callback() -> bool:
    return getattr(_local, "depth", 0) > 0


class client_thread:
    """Marks a callback, which a thread of the client may run."""

    def __enter__(self) -> None:
        _local.depth = getattr(_local, "depth", 0) + 1

    def __exit__(self, *_exception: object) -> None:
        _local.depth -= 1


class Core:
    """The pointer of a handle and who uses it. `with core as pointer:` around each call."""

    def __init__(
        self,
        pointer: Any,
        free: Callable[[Any], None],
        what: str,
        parent: Optional[Core] = None,
        interrupt: Optional[Callable[[Any], None]] = None,
    ) -> None:
        self.pointer, self.what, self.parent = pointer, what, parent
        self.keep: List[Any] = []  # callbacks, which the library may call until the handle is freed
        self._free, self._interrupt = free, interrupt
        self._changed = threading.Condition(threading.RLock())
        self._users: List[int] = []  # the threads that are inside, one entry for each call
        self._children: Set[Core] = set()
        self._generation = _generation
        self._closed = self._freed = False
        self._freed_by: Optional[int] = None  # the thread that frees it, or did
        self.closed_elsewhere = False  # closed, but not by a close() of its own object
        if parent is not None:
            try:
                parent._add(self)
            except ClosedError:
                self.close()
                raise

    def _add(self, child: Core) -> None:
        with self._changed:
            if self._closed:
                raise ClosedError(Status.INVALID, f"the {self.what} is closed", "")
            self._children.add(child)

    def __enter__(self) -> Any:
        if self._generation != _generation:
            raise ClosedError(
                Status.INVALID,
                f"the {self.what} belongs to the parent process: open a client in " "the child",
                "",
            )
        with self._changed:
            if self._closed:
                raise ClosedError(Status.INVALID, f"the {self.what} is closed", "")
            self._users.append(threading.get_ident())
        return self.pointer

    def __exit__(self, *_exception: object) -> None:
        with self._changed:
            self._users.remove(threading.get_ident())
            self._changed.notify_all()
            last = self._closed and not self._users
        if last and not in_callback():  # there, close() waits in another thread
            self._free_once()

    @property
    def closed(self) -> bool:
        return self._closed or self._generation != _generation

    def interrupt(self) -> None:
        """Interrupts a call that waits in another thread."""
        if self._interrupt is not None:
            with self._changed:
                if self._freed_by is None and self._generation == _generation:
                    self._interrupt(self.pointer)

    def close(self, elsewhere: bool = False) -> None:
        if self._generation != _generation:
            return
        with self._changed:
            if not self._closed:
                self.closed_elsewhere = elsewhere
            self._closed = True
            children = list(self._children)
        for child in children:
            child.close(elsewhere=True)
        if in_callback():
            # Not a daemon: Python would end before the threads of the library that run callbacks.
            threading.Thread(target=self._free_unused, name="holdfast-close", daemon=False).start()
        elif threading.get_ident() not in self._users:
            self._free_unused()

    def _free_unused(self) -> None:
        with self._changed:
            while self._users:
                self.interrupt()
                self._changed.wait(INTERRUPT_SECONDS)
        self._free_once()
        with self._changed:  # a signal handler may close what its own thread is just freeing
            while not self._freed and self._freed_by != threading.get_ident():
                self._changed.wait()

    def _free_once(self) -> None:
        with self._changed:
            if self._freed_by is not None:
                return
            self._freed_by = threading.get_ident()
        try:
            if self.pointer is not None:
                self._free(self.pointer)
        finally:
            with self._changed:
                self._freed = True
                self._changed.notify_all()
        if self.parent is not None:
            with self.parent._changed:
                self.parent._children.discard(self)

    def close_by(self, free: Callable[[Any], Any]) -> Any:
        """Closes the handle by another call than usual, such as one that leaves its lease in
        place. Returns the result of that call, or None if another thread will make it."""
        result: List[Any] = []
        self._free = lambda pointer: result.append(free(pointer))
        self.close()
        return result[0] if result else None


def _close_in_child(handle: Handle, core: Core) -> None:
    """Closes a client when this process ends, if that is a child of multiprocessing."""
    from multiprocessing import parent_process
    from multiprocessing.util import Finalize

    if parent_process() is not None:
        Finalize(handle, core.close, kwargs={"elsewhere": True}, exitpriority=10)


class Handle:
    """A Python object for a handle. It can be closed, and is a context manager that closes."""

    _core: Core

    def _own(self, core: Core) -> None:
        self._core = core
        self._finalizer = weakref.finalize(self, core.close, elsewhere=True)
        if core.parent is None and "multiprocessing.util" in sys.modules:
            _close_in_child(self, core)

    @property
    def closed(self) -> bool:
        """Whether the object can no longer be used."""
        return self._core.closed

    def close(self) -> None:
        """Closes the object, and everything that was made from it. Does nothing if it is closed."""
        if self._finalizer.detach() is not None:
            self._core.close()

    def __repr__(self) -> str:
        return f"<holdfast.{type(self).__name__}{' (closed)' if self.closed else ''}>"


class ClosingHandle(Handle):
    """A handle whose context manager closes it."""

    def __enter__(self: H) -> H:
        with self._core:
            return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()
