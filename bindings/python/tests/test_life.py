# SPDX-License-Identifier: Apache-2.0
"""The lifetimes of objects: threads, Ctrl-C, closing, garbage, forks, and the end of Python."""

import asyncio
import copy
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import LOCAL

import holdfast

SOON = 30
ENVIRONMENT = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.dirname(holdfast.__file__)))


def waiting(client, count=1):
    """Waits until so many wait in the queue."""
    while sum(lease.state == "waiting" for lease in client.locks(waiting=True)) < count:
        time.sleep(0.005)


def python(code, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=SOON,
        **options,
    )


# ---- Closing ------------------------------------------------------------------------------------


def test_a_closed_object_raises_whatever_is_called(local, name, tmp_path):
    lock, key, txn = local.lock("a"), local.key("b"), local.txn()
    index, compact = local.create_index(
        name, ["k", "t"], key="k", time="t", digits=1
    ), local.compact(name)
    member = local.elect_join(name)
    compact.create(key="1")
    reader, cursor = compact.reader(), index.query()
    (txn_key,) = txn.acquire("c")
    local.close()
    local.close()
    calls = [
        lambda: lock.acquire(),
        lambda: lock.check(),
        lambda: lock.token,
        lambda: lock.text(),
        lambda: lock.release(),
        lambda: key.update(b""),
        lambda: key.name,
        lambda: txn.commit(),
        lambda: txn.acquire("d"),
        lambda: txn_key.update(b""),
        lambda: txn_key.name,
        lambda: index.get("x"),
        lambda: index.fields,
        lambda: index.put(k="1"),
        lambda: next(cursor),
        lambda: compact.chunks(),
        lambda: compact.run(),
        lambda: reader.chunks(),
        lambda: member.rank(),
        lambda: local.get("x"),
        lambda: local.lock("x"),
        lambda: local.locks(),
        lambda: local.__enter__(),
        lambda: lock.fenced_put("x", b""),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(holdfast.ClosedError, match="closed"):
            call()
            print(number)
    assert "(closed)" in repr(local)


def test_closing_a_client_ends_the_waits_of_other_threads(local, name):
    ended = []

    def wait(client):
        try:
            client.lock("deploy").acquire()
        except holdfast.Error as error:
            ended.append(error)

    with local.lock("deploy"):
        client = holdfast.open(LOCAL[0], ns=name)
        threads = [threading.Thread(target=wait, args=(client,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        waiting(local, 3)
        client.close()
        for thread in threads:
            thread.join()
    assert [type(error) for error in ended] == [holdfast.CancelledError] * 3


def test_a_lock_that_is_closed_with_its_client_is_told_as_lost(local, name):
    client = holdfast.open(LOCAL[0], ns=name)
    with pytest.raises(holdfast.LostError, match="closed"):
        with client.lock("deploy") as lock:
            closer = threading.Thread(target=client.close)
            closer.start()
            assert lock.gone.wait(SOON)
            closer.join()
    local.lock("deploy", wait=0).acquire()
    client = holdfast.open(LOCAL[0], ns=name)
    with pytest.raises(KeyError):
        with client.key("a") as key:
            client.close()
            raise KeyError("work")
    assert key.gone.is_set()


def test_a_transaction_that_is_closed_with_its_client_is_told(local, name):
    client = holdfast.open(LOCAL[0], ns=name)
    with pytest.raises(holdfast.ClosedError, match="before its commit"):
        with client.txn() as txn:
            (key,) = txn.acquire("a")
            key.update(b"lost")
            client.close()
    assert key.gone.is_set()
    with pytest.raises(holdfast.NotFoundError):
        local.get("a")


def test_closing_what_was_released_or_detached_is_not_a_loss(name):
    client = holdfast.open(LOCAL[0], ns=name)
    lock, passed, key = client.lock("a"), client.lock("b"), client.key("c")
    with lock, key:
        pass
    passed.acquire()
    passed.detach()
    with client.txn() as txn:
        (txn_key,) = txn.acquire("d")
        txn.commit()
        client.close()
    assert not any(one.gone.is_set() for one in (lock, passed, key, txn_key))


def test_closing_a_client_ends_a_compile_that_watches(name):
    client, ended, running = holdfast.open(LOCAL[0], ns=name), [], threading.Event()
    index = client.create_index(name, ["k", "t"], key="k", time="t", digits=1)

    def watch():
        try:
            index.compile(watch=True, poll=0.1, go_on=running.set)
        except holdfast.Error as error:
            ended.append(type(error))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    assert running.wait(SOON)
    closer = threading.Thread(target=client.close, daemon=True)
    closer.start()
    closer.join(SOON)
    thread.join(SOON)
    assert ended == [holdfast.ClosedError] and not closer.is_alive()


def test_a_lock_that_is_no_longer_referenced_is_released(local):
    lock = local.lock("deploy")
    lock.acquire()
    del lock
    gc.collect()
    local.lock("deploy", wait=SOON).acquire()


def test_a_lock_and_a_client_whose_callbacks_refer_to_them_are_closed(local, name):
    class Job:
        def __init__(self):
            self.client = holdfast.open(LOCAL[0], ns=name, event=self.event)
            self.lock = self.client.lock("deploy", notify=self.notify)
            self.lock.acquire()

        def event(self, event):
            pass

        def notify(self, lock, event):
            pass

    job = Job()
    cores = [job.client._core, job.lock._core]
    del job
    end = time.monotonic() + SOON
    while not all(core.closed for core in cores) and time.monotonic() < end:
        gc.collect()  # again, if a callback that runs still refers to them
        time.sleep(0.005)
    assert all(core.closed for core in cores)
    local.lock("deploy", wait=SOON).acquire()


def test_a_worker_and_a_reader_keep_their_partition_open(local, name):
    local.compact(name).create(key="1")
    worker, reader = local.compact(name).worker(), local.compact(name).reader()
    gc.collect()
    assert not worker.closed and reader.chunks() == []
    worker.stop()
    worker.wait(SOON)


def test_a_callback_may_close_what_it_is_about(local, name):
    closed = threading.Event()

    def gone(lock, event):
        lock.close()
        closed.set()

    lock = local.lock("deploy", notify=gone)
    lock.acquire()
    local.break_lease(lock.text(), "ada", "a test")
    with pytest.raises(holdfast.Error):
        lock.renew()
    assert closed.wait(SOON) and lock.closed
    found = []

    def event(event):
        found.append(event)
        client.close()

    client = holdfast.open(LOCAL[0], ns=name, event=event)
    try:
        client.get("absent")
    except holdfast.Error:
        pass
    end = time.monotonic() + SOON
    while not (found and client.closed) and time.monotonic() < end:
        time.sleep(0.005)
    assert client.closed


CLOSER = '''
import holdfast, sys, threading
url, ns, what, where = sys.argv[1:]
with open(ns + ".csv", "w") as file:
    file.write("id,at\\n1,1770372000\\n")
client, ready, closed = holdfast.open(url, ns=ns), threading.Event(), threading.Event()
compact = client.compact(ns)
compact.create(format="exec", command="lines {inputs} {output}")
for id in "ab":
    compact.ingest(ns + ".csv", id=id)

def close(argument):
    ready.wait()
    {"worker": worker, "partition": compact, "client": client}[what].close()
    closed.set()

merger = close if where == "merger" else lambda job: None
worker = compact.worker(force=True, merger=merger, event=close if where == "event" else None)
ready.set()
assert closed.wait(20) and worker.closed
'''


@pytest.mark.parametrize("what", ["worker", "partition", "client"])
@pytest.mark.parametrize("where", ["event", "merger"])
def test_a_callback_of_a_worker_may_close_it(local, name, tmp_path, what, where):
    done = python(CLOSER, LOCAL[0], name, what, where, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_callback_of_a_call_may_close_its_client(name):
    client = holdfast.open(LOCAL[0], ns=name)
    index = client.create_index(name, ["k", "t"], key="k", time="t", digits=1)
    index.put(k="1")
    with pytest.raises(holdfast.ClosedError):
        index.compile(watch=True, go_on=client.close)
    assert index.closed


def test_a_notify_that_leaves_last_does_not_free_the_lock(local):
    entered, done = threading.Event(), []

    def notify(lock, event):
        with lock._core:  # as a call of the lock in another thread's close()
            entered.set()
            while not lock.closed:
                time.sleep(0.001)
        done.append(event)

    lock = local.lock("deploy", notify=notify)
    lock.acquire()
    local.break_lease(lock.text(), "ada", "a test")
    with pytest.raises(holdfast.LostError):
        lock.renew()
    assert entered.wait(SOON)
    closer = threading.Thread(target=lock.close, daemon=True)
    closer.start()
    closer.join(SOON)
    assert done == ["gone"] and not closer.is_alive()


def test_an_exception_in_an_event_callback_is_reported(name, monkeypatch):
    reported = threading.Event()
    monkeypatch.setattr(
        sys,
        "unraisablehook",
        lambda report: reported.set() if report.exc_type is KeyError else None,
    )

    def event(event):
        raise KeyError("event")

    with holdfast.open(LOCAL[0], ns=name, event=event) as client:
        with client.lock("deploy"):
            assert reported.wait(SOON)


def test_a_body_may_close_its_lock(local):
    with local.lock("deploy") as lock:
        lock.close()
    with local.txn() as txn:
        txn.close()


# ---- Threads and signals ------------------------------------------------------------------------


def test_threads_with_locks_of_their_own_exclude_each_other(local):
    inside, most = [], []

    def work():
        for _ in range(5):
            with local.lock("deploy"):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 20


def test_ctrl_c_ends_a_wait_and_leaves_the_queue(local, name):
    with holdfast.open(LOCAL[0], ns=name) as client, local.lock("deploy"):
        calls = [
            lambda: client.lock("deploy").acquire(),
            lambda: client.key("deploy").acquire(),
            lambda: client.txn().acquire("deploy"),
            lambda: client.change("deploy", b"", wait=None),
        ]
        for call in calls:

            def interrupt():
                waiting(local)
                os.kill(os.getpid(), signal.SIGINT)

            thread = threading.Thread(target=interrupt)
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                call()
            thread.join()
            gc.collect()
            while local.locks(waiting=True)[1:]:
                time.sleep(0.005)


def interrupting(monkeypatch, name, signals):
    """Lets so many Ctrl-C come while a call of the library has its result but not returned."""
    real = getattr(holdfast._library.lib, name)

    def slow(*arguments):
        status = real(*arguments)
        for _ in range(signals):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
        return status

    monkeypatch.setattr(holdfast._library.lib, name, slow)


@pytest.mark.parametrize("wait", [0, SOON])
@pytest.mark.parametrize("signals", [1, 3])
def test_ctrl_c_during_the_grant_leaves_nothing_held(local, monkeypatch, wait, signals):
    lock = local.lock("deploy")
    interrupting(monkeypatch, "hf_lock_acquire", signals)
    with pytest.raises(KeyboardInterrupt):
        lock.acquire(wait)
    assert not lock.held


def test_ctrl_c_after_the_grant_and_before_it_is_returned_leaves_nothing_held(local, monkeypatch):
    real = holdfast._wait._Call.result

    def result(call):
        if threading.current_thread() is threading.main_thread():
            os.kill(os.getpid(), signal.SIGINT)
        return real(call)

    monkeypatch.setattr(holdfast._wait._Call, "result", result)
    lock = local.lock("deploy")
    with pytest.raises(KeyboardInterrupt):
        lock.acquire(0)
    assert not lock.held


def test_ctrl_c_during_a_nested_acquire_leaves_the_outer_one(local, monkeypatch):
    with local.lock("deploy") as lock:
        interrupting(monkeypatch, "hf_lock_acquire", 1)
        with pytest.raises(KeyboardInterrupt):
            lock.acquire(0)
        assert lock.held
    assert not lock.held


def test_ctrl_c_ends_a_compile_that_watches(local, name):
    with local.create_index(name, ["k", "t"], key="k", time="t", digits=1) as index:
        timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            index.compile(watch=True)


def test_a_handler_that_raises_nothing_lets_the_wait_go_on(local):
    told = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: told.append(number))
    try:
        with local.lock("deploy"):
            threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
            with pytest.raises(holdfast.TimeoutError):
                local.lock("deploy").acquire(wait=0.3)
        assert told == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_another_thread_interrupts_a_wait(local):
    lock = local.lock("deploy")
    with local.lock("deploy"):
        stop = threading.Event()

        def interrupt():
            waiting(local)
            while not stop.wait(0.005):
                lock.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(holdfast.CancelledError):
            lock.acquire()
        stop.set()
        thread.join()


# ---- asyncio ------------------------------------------------------------------------------------


def test_asyncio_tasks_wait_without_blocking_the_loop(local):
    order = []

    async def work(number):
        async with local.lock("deploy") as lock:
            lock.check()
            order.append(number)
            await asyncio.sleep(0.001)

    async def main():
        await asyncio.gather(*(work(number) for number in range(12)))
        async with local.txn() as txn:
            (key,) = await txn.acquire_async("k", wait=SOON)
            key.update(b"async")
        async with local.key("k") as key:
            assert key.get().data == b"async"
        lock = local.lock("deploy")
        await lock.acquire_async(wait=0)
        with pytest.raises(holdfast.HeldError):
            await local.lock("deploy").acquire_async(wait=0)
        text = lock.text()
        lock.detach()
        async with local.adopt(text) as adopted:
            assert adopted.held

    asyncio.run(main())
    assert sorted(order) == list(range(12))


def test_a_cancelled_task_leaves_the_queue(local):
    async def main():
        async with local.lock("deploy"):
            task = asyncio.create_task(local.lock("deploy").acquire_async())
            await asyncio.to_thread(waiting, local)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not [lease for lease in local.locks(waiting=True) if lease.state == "waiting"]
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(local.lock("deploy").acquire_async(), 0.05)
        async with local.lock("deploy", wait=0):
            pass

    asyncio.run(main())


# ---- Processes ----------------------------------------------------------------------------------


def test_a_forked_child_can_neither_use_nor_release_what_is_its_parents(local, name):
    with local.lock("deploy") as lock:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                lock.check()
            except holdfast.ClosedError as error:
                status = 0 if "parent" in str(error) else 2
            try:
                lock.close()
                local.close()
                with holdfast.open(LOCAL[0], ns=name) as own:
                    own.lock("deploy").acquire(wait=0)
                    status = 3
            except holdfast.HeldError:
                pass
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        lock.check()
        assert lock.held


def test_an_exception_is_pickled_with_all_it_says(local):
    local.change("a", b"")
    with pytest.raises(holdfast.ConflictError) as caught:
        local.change("a", b"", version=7)
    kinds = [kind for kind in vars(holdfast).values() if isinstance(kind, type)]
    kinds = [kind for kind in kinds if issubclass(kind, holdfast.Error)]
    errors = [kind(holdfast.Status.INVALID, "why", "hf_call") for kind in kinds]
    for error in [caught.value, holdfast.fault(3, "bad rows"), *errors]:
        for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(same) is type(error) and str(same) == str(error)
            assert vars(same) == vars(error)


def hold(url, ns, pipe):
    """In a child: acquires a lock, and leaves it to the end of the process."""
    client = holdfast.open(url, ns=ns)
    lock = client.lock("deploy", wait=0)
    lock.acquire()
    pipe.send(lock.token)
    hold.kept = lock


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_leases_are_given_back_when_a_child_of_multiprocessing_ends(local, name, method):
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    child = context.Process(target=hold, args=(LOCAL[0], name, there))
    child.start()
    assert here.poll(SOON) and here.recv() > 0
    child.join(SOON)
    assert child.exitcode == 0
    local.lock("deploy", wait=0).acquire()


def test_leases_are_given_back_when_python_exits(local, name):
    done = python(
        "import holdfast, sys\n"
        "client = holdfast.open(sys.argv[1], ns=sys.argv[2])\n"
        "lock = client.lock('deploy'); lock.acquire()\n"
        "sys.exit(7)\n",
        LOCAL[0],
        name,
    )
    assert (done.returncode, done.stderr) == (7, "")
    local.lock("deploy", wait=0).acquire()


def test_ctrl_c_in_a_program_releases_the_lock(local, name):
    done = python(
        "import holdfast, os, signal, sys, time\n"
        "with holdfast.open(sys.argv[1], ns=sys.argv[2]) as client:\n"
        "    with client.lock('deploy'):\n"
        "        os.kill(os.getpid(), signal.SIGINT); time.sleep(30)\n",
        LOCAL[0],
        name,
    )
    assert done.returncode == -signal.SIGINT and "KeyboardInterrupt" in done.stderr
    local.lock("deploy", wait=0).acquire()


def test_a_library_that_is_not_there_is_told():
    done = subprocess.run(
        [sys.executable, "-c", "import holdfast"],
        env=dict(ENVIRONMENT, HOLDFAST_LIBRARY="/none.so"),
        capture_output=True,
        text=True,
    )
    assert "ImportError: cannot load /none.so" in done.stderr and "HOLDFAST_LIBRARY" in done.stderr


def test_mistakes_of_the_caller_are_told(local, monkeypatch):
    with pytest.raises(holdfast.InvalidError, match="URL"):
        holdfast.open("nothing")
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    with pytest.raises(holdfast.InvalidError, match="HOLDFAST_STORE"):
        holdfast.open()
    monkeypatch.setenv("HOLDFAST_STORE", "mem:")
    holdfast.open().close()
    for call in (
        lambda: local.lock("UPPER CASE").acquire(),
        lambda: local.lock("a\0b"),
        lambda: local.lock(),
        lambda: local.lock("a", ttl=-1),
        lambda: local.lock("a").acquire(wait=-1),
        lambda: local.lock("a", ttl=float("nan")),
        lambda: local.choose_events("nothing"),
        lambda: local.adopt("nothing"),
        lambda: local.compact("A B"),
        lambda: local.txn(id="x"),
    ):
        with pytest.raises(holdfast.InvalidError):
            call()
    with pytest.raises(TypeError):
        local.lock(7)
