# SPDX-License-Identifier: Apache-2.0
"""Indexes on each store."""

import pytest

import holdfast

FIELDS = ["host", "owner", "size", "seen"]


@pytest.fixture
def index(client, name):
    with client.create_index(name, FIELDS, key="host", time="seen", digits=1) as created:
        yield created


def rows(count):
    return [
        {
            "host": f"h{i}.example",
            "owner": "ada" if i % 2 else "joe",
            "size": str(i),
            "seen": f"17703720{i:02}",
        }
        for i in range(count)
    ]


def test_a_record_is_put_found_and_compiled(client, index, name):
    assert index.fields == FIELDS and name in client.indexes()
    index.put(host="a.example", owner="ada")
    assert index.get("a.example")["owner"] == "ada"
    with pytest.raises(holdfast.NotFoundError):
        index.get("b.example")
    report = index.compile()
    assert report.shards_done == 1 and report.folded.records_new == 1
    assert index.status().entries == 0 and index.get("a.example")["size"] == ""


def test_the_latest_record_wins_and_a_deletion_is_one(index):
    index.put({"host": "a", "owner": "new"}, seen="2026-02-06T10:00:01Z")
    index.put(host="a", owner="old", seen="2026-02-06T10:00:00Z")
    assert index.get("a")["owner"] == "new"
    index.delete("a", time="2026-02-06T10:00:02Z")
    with pytest.raises(holdfast.NotFoundError):
        index.get("a")


def test_a_query_filters_sorts_and_limits(index):
    index.put_many(rows(10))
    assert (
        index.count() == 10
        and index.count(where="owner = ada") == 5
        and index.count(prefix="h1") == 1
    )
    big = index.query(where=["owner = ada", "size >= 5"], sort="size:number:desc", limit=2)
    assert [record["host"] for record in big] == ["h9.example", "h7.example"]
    assert big.closed and next(big, None) is None
    assert {record["host"] for record in index.query(since="1770372008")} == {
        "h8.example",
        "h9.example",
    }
    found = index.get_many(["h1.example", "absent", "h2.example"])
    assert sorted(found) == ["h1.example", "h2.example"] and found["h2.example"]["owner"] == "joe"
    with pytest.raises(holdfast.InvalidError, match="owned"):
        index.query(where="owned = ada")


def test_records_are_loaded_from_a_file_and_exported(index, tmp_path):
    source = tmp_path / "hosts.csv"
    source.write_text("host,owner,seen\na,ada,1770372000\nb,joe,never\nc,eve,1770372000\n")
    refused = []
    with open(source, "rb") as file:
        report = index.load(file, refused=lambda line, why: refused.append((line, why)))
    assert (
        (report.records, report.refused) == (2, 1)
        and refused[0][0] == 3
        and "never" in refused[0][1]
    )
    with open(source, "rb") as file, pytest.raises(holdfast.InvalidError):
        index.load(file)
    with open(tmp_path / "out.ndjson", "wb") as file:
        assert index.export(file, where="owner != eve") == 1
    assert '"ada"' in (tmp_path / "out.ndjson").read_text()
    with open(tmp_path / "out.xyz", "wb") as file, pytest.raises(
        holdfast.InvalidError, match="format"
    ):
        index.export(file)


def test_mistakes_are_told(client, index, name):
    with pytest.raises(holdfast.InvalidError, match="owned"):
        index.put(host="a", owned="ada")
    with pytest.raises(holdfast.InvalidError, match="NUL"):
        index.put(host="a\0b")
    with pytest.raises(TypeError):
        index.put(host="a", size=7)
    with pytest.raises(holdfast.NotFoundError):
        client.index(name + "-none")


def test_an_exception_in_a_callback_is_raised_by_the_call(index):
    index.put_many(rows(4))

    def stop():
        raise KeyError("callback")

    with pytest.raises(KeyError, match="callback"):
        index.compile(go_on=stop)
    with pytest.raises(holdfast.CancelledError):
        index.compile(go_on=lambda: False)
    assert index.compile().folded.records_new == 4


def test_a_field_is_added_while_a_handle_is_open(client, index, name):
    with client.create_index(name, [*FIELDS, "note"], key="host", time="seen") as extended:
        extended.put(host="a", note="later")
        assert extended.get("a")["note"] == "later"
    assert index.get("a")["note"] == "later" and index.fields[-1] == "note"
