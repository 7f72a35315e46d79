# SPDX-License-Identifier: Apache-2.0
"""Locks on each store."""

import threading

import pytest

import holdfast

SOON = 30  # seconds: long enough for a loaded machine, and nothing waits so long if all is well


def test_a_lock_is_held_alone_and_tokens_rise(client, other):
    with client.lock("deploy") as lock:
        assert lock.held and lock.token > 0 and 0 < lock.remaining <= lock.ttl == 30
        assert lock.scopes == ["named:deploy"]
        lock.check()
        late = other.lock("deploy", wait=0)
        with pytest.raises(holdfast.HeldError) as caught:
            late.acquire()
        assert (
            caught.value.status == holdfast.Status.HELD and caught.value.call == "hf_lock_acquire"
        )
        blocker = late.blocker()
        assert (
            blocker.token == lock.token
            and blocker.state == "active"
            and blocker.scope == "named:deploy"
        )
        with pytest.raises(holdfast.TimeoutError) as waited:
            late.acquire(wait=0.05)
        assert isinstance(waited.value, TimeoutError)
        first = lock.token
    assert not lock.held
    with pytest.raises(holdfast.NotFoundError):
        lock.check()
    with late:
        assert late.token > first


def test_an_exception_in_the_body_releases_the_lock(client, other):
    with pytest.raises(KeyError):
        with client.lock("deploy"):
            raise KeyError("work")
    other.lock("deploy", wait=0).acquire()


def test_a_waiter_gets_the_lock_when_it_is_released(client, other):
    got = threading.Event()

    def wait():
        with other.lock("deploy"):
            got.set()

    with client.lock("deploy"):
        thread = threading.Thread(target=wait)
        thread.start()
        assert not got.wait(0.1)
    assert got.wait(SOON)
    thread.join()


def test_acquisitions_are_counted(client, other):
    lock = client.lock("deploy")
    with lock:
        with lock:
            pass
        lock.check()
        with pytest.raises(holdfast.HeldError):
            other.lock("deploy").acquire(wait=0)


def test_shared_and_counted_locks_admit_several_holders(client, other):
    with client.lock("read", mode="shared"), other.lock("read", mode="shared", wait=0):
        pass
    with client.lock("pool", mode="slots", slots=2), other.lock(
        "pool", mode="slots", slots=2, wait=0
    ):
        with pytest.raises(holdfast.HeldError):
            client.lock("pool", mode="slots", slots=2, wait=0).acquire()
    with pytest.raises(
        holdfast.InvalidError, match="unknown mode 'both': use exclusive, shared, slots"
    ):
        client.lock("x", mode="both")


def test_several_scopes_are_acquired_together(client, other):
    with client.lock("path:/a", "path:/b") as lock:
        assert sorted(lock.scopes) == ["path:/a", "path:/b"]
        with pytest.raises(holdfast.HeldError):
            other.lock("path:/b", wait=0).acquire()


def test_a_broken_lease_is_noticed_by_check_callback_and_event(client, other):
    told = []
    lock = client.lock("deploy", notify=lambda lock, event: told.append((event, lock.held)))
    with pytest.raises(holdfast.LostError):
        with lock:
            other.break_lease(lock.text(), "ada", "a test")
            with pytest.raises(holdfast.LostError):
                lock.renew()
            assert lock.gone.wait(SOON)
            lock.check()
    assert told == [("gone", False)]
    with lock:
        assert not lock.gone.is_set()


def test_a_lost_lease_stays_gone_until_it_is_released(client, other):
    lock = client.lock("deploy")
    lock.acquire()
    other.break_lease(lock.text(), "ada", "a test")
    with pytest.raises(holdfast.LostError):
        lock.renew()
    assert lock.gone.wait(SOON)
    with pytest.raises(holdfast.LostError):
        lock.acquire(wait=0)
    assert lock.gone.is_set()
    with pytest.raises(holdfast.LostError):
        lock.release()
    with lock:
        assert not lock.gone.is_set()


def test_a_release_after_the_loss_raises_unless_the_body_did(client, other):
    with pytest.raises(holdfast.LostError) as caught:
        with client.lock("deploy") as lock:
            other.break_lease(lock.text(), "ada", "a test")
    assert caught.value.call == "hf_lock_release"
    with pytest.raises(KeyError):
        with client.lock("deploy") as lock:
            other.break_lease(lock.text(), "ada", "a test")
            raise KeyError("work")


def test_work_is_done_once_per_period(client, other):
    with pytest.raises(KeyError):
        with client.lock("backup", once_per=3600):
            raise KeyError("the backup failed")
    with client.lock("backup", once_per=3600, wait=0):
        pass
    again = other.lock("backup", once_per=3600, wait=0)
    with pytest.raises(holdfast.AlreadyError):
        with again:
            pass
    assert again.blocker().state == "completed"


def test_a_lease_is_passed_on_as_text(client, other):
    lock = client.lock("deploy")
    lock.acquire()
    lease, token = lock.text(), lock.token
    lock.detach()
    assert lock.closed
    with other.adopt(lease) as adopted:
        assert adopted.token == token and adopted.held
    client.lock("deploy", wait=0).acquire()


def test_a_fenced_object_refuses_a_stale_token(client, other, name):
    with client.lock("writer") as lock:
        lock.fenced_put(f"{name}/state", b"one\0two")
        assert client.fenced_get(f"{name}/state") == (b"one\0two", lock.token)
        other.break_lease(lock.text(), "ada", "a test")
        with other.lock("writer", wait=SOON) as later:
            later.fenced_put(f"{name}/state", b"new")
        with pytest.raises(holdfast.Error) as caught:
            lock.fenced_put(f"{name}/state", b"stale")
        assert isinstance(caught.value, (holdfast.FencedError, holdfast.LostError))
        try:
            lock.release()
        except holdfast.LostError:
            pass
        lock.close()
    assert other.fenced_get(f"{name}/state")[0] == b"new"
    with other.lock("writer") as last:
        last.fenced_delete(f"{name}/state")
    with pytest.raises(holdfast.NotFoundError):
        client.fenced_get(f"{name}/state")


def test_leases_and_waiters_are_listed(client, other):
    with client.lock("deploy/a", note='{"why":"test"}') as lock:
        waiter = threading.Thread(target=lambda: other.lock("deploy/a", wait=SOON).acquire())
        waiter.start()
        while len(found := client.locks("deploy", waiting=True)) < 2:
            pass
        assert [lease.state for lease in found] == ["active", "waiting"]
        assert (
            found[0].scopes == ["named:deploy/a"]
            and found[0].token == lock.token
            and found[0].mode == "exclusive"
        )
        assert (
            found[0].lease == lock.text()
            and '"test"' in found[0].note
            and found[1].holder == "other"
        )
    waiter.join()


def test_events_and_counters_tell_what_happened(url, name):
    events, done = [], threading.Event()

    def told(event):
        events.append(event)
        if event.kind == "released":
            done.set()

    with holdfast.open(url, ns=name, event=told) as client:
        client.choose_events("granted", "released")
        with client.lock("deploy") as lock:
            token = lock.token
        assert done.wait(SOON)
        stats = client.stats()
        assert (stats.granted, stats.released, stats.lost) == (1, 1, 0) and stats.puts.calls > 0
    kinds = [event.kind for event in events if event.kind != "request"]
    assert kinds == ["granted", "released"]
    granted = next(event for event in events if event.kind == "granted")
    assert granted.scope == "named:deploy" and granted.token == token
