# SPDX-License-Identifier: Apache-2.0
"""_wait.py: calls that wait, such that Ctrl-C and the cancellation of an asyncio task end them.

Python runs signal handlers in the main thread, between two of its own instructions: never while
the main thread is inside of the library. So a call that may wait long runs in a thread of its own,
and the main thread waits for that thread in Python. So does an acquire that does not wait: a signal
that arrives during its request would be raised after it, and hide that the lock is held. In any
other thread, the call is made directly.

If the wait is given up, the library is asked to interrupt the call until the call has returned.
Only then is the exception raised, so nothing goes on behind the caller's back. Another Ctrl-C does
not change that.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Callable, Generic, List, Optional, TypeVar

from ._handle import INTERRUPT_SECONDS

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
SIGNALS_MAX = 16  # so many more end even the wait for a call to return; it is still taken back


class _Call(Generic[T]):
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], T], done: Callable[[], None]) -> None:
        self._call, self._done = call, done
        self._result: List[T] = []
        self._error: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, name="holdfast-wait", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def started(self) -> bool:
        return self._thread.ident is not None

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        except BaseException as error:
            self._error = error
        finally:
            self._done()

    def succeeded(self) -> bool:
        return bool(self._result)

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result[0]


def wait_for(call: Callable[[], T], interrupt: Callable[[], None], undo: Callable[[T], None]) -> T:
    """Makes a call that may wait. If an exception comes first, `undo` takes back what the call
    did."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    done = threading.Event()
    running = _Call(call, done.set)
    try:
        running.start()
        done.wait()
        if running.succeeded():
            return running.result()  # inside, because a signal may come until it has returned
    except BaseException:
        _give_up(running, done, interrupt, undo)
        raise
    return running.result()


def _give_up(
    running: _Call[T],
    done: threading.Event,
    interrupt: Callable[[], None],
    undo: Callable[[T], None],
) -> None:
    """Ends a call and takes it back, in a thread, where no signal can come in between."""

    def end() -> None:
        while running.started() and not done.wait(INTERRUPT_SECONDS):
            interrupt()
        if running.succeeded():
            undo(running.result())

    ended = threading.Event()
    ending = _Call(end, ended.set)
    for _signal in range(SIGNALS_MAX):
        try:
            if not ending.started():
                ending.start()
            ended.wait()
            return
        except BaseException:
            pass  # the exception that ended the wait is raised


async def wait_for_async(
    call: Callable[[], T], interrupt: Callable[[], None], undo: Callable[[T], None]
) -> T:
    """Like wait_for, without blocking the event loop. Each wait has its own thread: a pool would
    be full of waits, and have no thread left for the release that one of them waits for."""
    import asyncio  # only a program that uses it pays for it

    loop, done = asyncio.get_running_loop(), asyncio.Event()
    running = _Call(call, lambda: _tell(loop, done))
    running.start()
    try:
        await done.wait()
    except BaseException:
        ended: asyncio.Task[None] = loop.create_task(_end(done, interrupt))
        while not ended.done():  # a second cancellation does not make it end sooner
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError:
                pass
        if running.succeeded():
            await in_thread(lambda: undo(running.result()))
        raise
    return running.result()


async def in_thread(call: Callable[[], T]) -> T:
    """Makes a short call without blocking the event loop. It cannot be cancelled."""
    import asyncio

    loop, done = asyncio.get_running_loop(), asyncio.Event()
    running = _Call(call, lambda: _tell(loop, done))
    running.start()
    cancelled: Optional[BaseException] = None
    while not done.is_set():
        try:
            await done.wait()
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return running.result()


def _tell(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(done.set)
    except RuntimeError:
        pass  # the loop was closed meanwhile: nobody waits any more


async def _end(done: asyncio.Event, interrupt: Callable[[], None]) -> None:
    import asyncio

    while not done.is_set():
        interrupt()
        try:
            await asyncio.wait_for(done.wait(), INTERRUPT_SECONDS)
        except asyncio.TimeoutError:
            pass
