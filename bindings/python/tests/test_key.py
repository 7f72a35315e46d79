# SPDX-License-Identifier: Apache-2.0
"""Keys and transactions on each store."""

import threading

import pytest

import holdfast

SOON = 30


def test_a_key_is_changed_in_one_call(client):
    with pytest.raises(holdfast.NotFoundError) as missing:
        client.get("orders/42")
    assert missing.value.info.version == 0
    info = client.change("orders/42", b"one", version=0)
    state = client.get("orders/42")
    assert (state.data, state.version, state.etag) == (b"one", 1, info.etag)
    with pytest.raises(holdfast.ConflictError) as refused:
        client.change("orders/42", b"two", version=7)
    assert refused.value.info.outcome == "version_conflict" and refused.value.info.version == 1
    with pytest.raises(holdfast.ConflictError):
        client.change("orders/42", b"two", etag="0" * 32)
    client.change("orders/42", b"two\0three", etag=state.etag)
    assert client.get("orders/42").data == b"two\0three"
    client.change("orders/42", None)
    with pytest.raises(holdfast.NotFoundError):
        client.get("orders/42")


def test_a_state_may_be_empty_or_large(client):
    client.change("empty", b"")
    assert client.get("empty").data == b""
    large = bytes(range(256)) * 1024
    with client.key("large") as key:
        key.update(large)
        assert key.get().data == large
    assert client.get("large").size == len(large)


def test_a_state_is_bytes(client):
    client.change("k", bytearray(b"one"))
    with client.key("k") as key, client.txn() as txn:
        key.update(memoryview(b"two"))
        assert key.get().data == b"two"
        for call in (
            lambda: key.update("text"),
            lambda: client.change("k", "text"),
            lambda: client.change_many({"k": "text"}),
            lambda: client.lock("l").fenced_put("o", "text"),
            lambda: txn.update({txn.acquire("j", wait=SOON)[0]: 7}),
        ):
            with pytest.raises(TypeError, match="expected bytes, got"):
                call()
        with pytest.raises(holdfast.InvalidError, match="another transaction"):
            txn.update({key: b""})


def test_only_the_holder_changes_a_key(client, other):
    with client.key("orders/42") as key:
        assert key.name == "orders/42" and key.held and key.token > 0 and key.seen.version == 0
        key.update(b"mine", version=0)
        with pytest.raises(holdfast.HeldError):
            other.change("orders/42", b"theirs")
        with pytest.raises(holdfast.TimeoutError):
            other.change("orders/42", b"theirs", wait=0.05)
        info, status = other.describe("orders/42")
        assert info.version == 1 and status.held and status.token == key.token
    assert other.change("orders/42", b"theirs", wait=SOON).version == 2
    assert [(name, info.version, status.held) for name, info, status in client.keys("orders/")] == [
        ("orders/42", 2, False)
    ]


def test_a_change_waits_for_the_holder(client, other):
    done = []
    with client.key("orders/42") as key:
        thread = threading.Thread(
            target=lambda: done.append(other.change("orders/42", b"theirs", wait=SOON))
        )
        thread.start()
        key.update(b"mine")
    thread.join()
    assert done[0].version == 2 and client.get("orders/42").data == b"theirs"


def test_staged_changes_are_dropped_if_the_body_raises(client):
    with client.key("k", staged=True) as key:
        key.update(b"one")
        with pytest.raises(holdfast.NotFoundError):
            client.get("k")
    assert client.get("k").data == b"one"
    with pytest.raises(KeyError):
        with client.key("k", staged=True) as key:
            key.update(b"two")
            raise KeyError("work")
    assert client.get("k").data == b"one"
    with client.key("k") as key:
        key.remove()
    with pytest.raises(holdfast.NotFoundError):
        client.get("k")


def test_the_lease_of_a_key_is_passed_on_and_lost(client, other):
    key = client.key("k")
    key.acquire()
    lease = key.text()
    key.detach()
    with other.adopt_key(lease) as adopted:
        adopted.update(b"adopted")
        client.break_lease(lease, "ada", "a test")
        with pytest.raises(holdfast.LostError):
            adopted.renew()
        assert adopted.gone.wait(SOON)
        adopted.close()
    assert client.get("k").data == b"adopted"


def test_a_transaction_commits_at_the_end(client, other):
    with client.txn() as txn:
        ann, joe = txn.acquire("accounts/ann", "accounts/joe", wait=SOON)
        ann.update(b"60")
        joe.update(b"40")
        assert ann.held and ann.name == "accounts/ann" and not ann.gone.is_set()
        with pytest.raises(holdfast.NotFoundError):
            other.get("accounts/ann")
    assert txn.decision == "commit" and txn.closed and ann.closed
    assert [other.get(f"accounts/{name}").data for name in ("ann", "joe")] == [b"60", b"40"]


def test_a_transaction_is_rolled_back_by_an_exception(client, other):
    client.change("accounts/ann", b"100")
    with pytest.raises(KeyError):
        with client.txn() as txn:
            ann, joe = txn.acquire("accounts/ann", "accounts/joe", wait=SOON)
            txn.update({ann: None, joe: b"100"})
            raise KeyError("work")
    assert txn.decision == "rollback" and other.get("accounts/ann").data == b"100"
    other.change("accounts/joe", b"1", wait=SOON)


def test_a_transaction_is_decided_in_the_body(client):
    with client.txn() as txn:
        assert len(txn.id) == 32
        (key,) = txn.acquire("k", wait=SOON)
        key.update(b"dropped")
        txn.rollback()
        assert txn.decision == "rollback"
    with client.txn() as txn:
        (key,) = txn.acquire("k", wait=SOON)
        txn.update({key: b"kept"})
        txn.commit()
    assert client.get("k").data == b"kept"


def test_a_key_of_a_transaction_is_left_to_the_transaction(client):
    with client.txn() as txn:
        (key,) = txn.acquire("k", wait=SOON)
        for call in (key.acquire, key.detach, key.close, key.__enter__):
            with pytest.raises(holdfast.InvalidError, match="transaction"):
                call()
        key.renew()
        key.update(b"kept")
    assert client.get("k").data == b"kept"


def test_a_transaction_is_shared_by_its_id(client, other):
    id = client.txn_open()
    txn = other.txn(id=id)
    (key,) = txn.acquire("k", wait=SOON)
    key.update(b"shared")
    txn.close()
    with pytest.raises(holdfast.NotFoundError):
        client.get("k")
    client.txn_decide(id)
    assert client.get("k").data == b"shared"
    with pytest.raises(holdfast.MismatchError):
        client.txn_decide(id, commit=False)


def test_a_transaction_whose_lease_is_broken_is_rolled_back(client, other):
    with pytest.raises((holdfast.LostError, holdfast.MismatchError)):
        with client.txn() as txn:
            (key,) = txn.acquire("k", wait=SOON)
            key.update(b"lost")
            other.break_lease(key.text(), "ada", "a test")
            other.change("k", b"theirs", wait=SOON)
    assert txn.closed and client.get("k").data == b"theirs"


def test_keys_of_a_transaction_are_refused_while_held(client, other):
    with client.key("k"):
        with other.txn() as txn:
            with pytest.raises(holdfast.HeldError):
                txn.acquire("k", wait=0)
            with pytest.raises(holdfast.TimeoutError):
                txn.acquire("k", wait=0.05)


def test_several_keys_are_changed_in_one_step(client, url):
    if not url.startswith("sqlite:"):
        with pytest.raises(holdfast.UnsupportedError):
            client.change_many({"a": b"1"})
        return
    infos = client.change_many({"a": b"1", "b": b"", "c": None}, versions={"a": 0})
    assert [info.version for info in infos][:2] == [1, 1] and client.get("b").data == b""
    with pytest.raises(holdfast.ConflictError):
        client.change_many({"a": b"2", "b": b"2"}, versions={"a": 5})
    assert client.get("b").data == b""
