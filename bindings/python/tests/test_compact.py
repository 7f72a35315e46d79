# SPDX-License-Identifier: Apache-2.0
"""Compaction on each store, with the library's merger and with one in Python; merging files;
elections."""

import os
import threading

import pytest

import holdfast


@pytest.fixture
def files(tmp_path):
    for number, rows in enumerate(
        (
            ["id,owner,at", "1,ada,1770372000", "2,joe,1770372000"],
            ["id,owner,at", "1,eve,1770372009", "3,bob,1770372000"],
        )
    ):
        (tmp_path / f"{number}.csv").write_text("\n".join(rows) + "\n")
    return [tmp_path / "0.csv", tmp_path / "1.csv"]


@pytest.fixture
def compact(client, name):
    with client.compact(name) as opened:
        yield opened


def join_lines(job):
    with open(job.output, "wb") as output:
        for source in job.sources:
            assert job.goes_on(source.size)
            with open(source.path, "rb") as file:
                output.write(file.read())


def test_a_partition_is_filled_merged_and_read(compact, files, tmp_path):
    compact.create(format="csv", key="id", time="at", ttl=60)
    assert compact.settings()["ttl"] == 60 and compact.settings()["format"] == "csv"
    report = compact.ingest(*files)
    assert (report.added, report.rows) == (2, 4) and compact.ingest(files[0]).already == 1
    totals = compact.run(force=True)
    assert (totals.groups_committed, totals.rows_in, totals.rows_out) == (1, 4, 3)
    assert [(chunk.state, chunk.level, chunk.rows) for chunk in compact.chunks()] == [
        ("live", 1, 3)
    ]
    assert sum(chunk.state == "tombstone" for chunk in compact.chunks("all")) == 2
    with compact.reader() as reader:
        assert len(reader.chunks()) == 1
        assert [row.split(b",")[1] for row in reader.rows()] == [b"eve", b"joe", b"bob"]
        assert reader.rows(key_prefix="2") == [b"2,joe,1770372000"]
        assert reader.export(tmp_path / "out.ndjson", format="ndjson") == 3
        reader.check()
    assert '"eve"' in (tmp_path / "out.ndjson").read_text()
    status = compact.status()
    assert status.committed == 1 and status.tombstones == 2 and status.levels[1][0] == 1
    assert (
        compact.undelete(
            next(chunk.key for chunk in compact.chunks("all") if chunk.state == "tombstone")
        )
        == 2
    )


def test_a_merger_in_python_merges_chunks_of_its_own_format(compact, files):
    compact.create(format="exec", command="lines {inputs} {output}")
    compact.ingest(*files)
    with pytest.raises(holdfast.DeniedError):
        compact.run(force=True)
    events, jobs = [], []

    def merge(job):
        jobs.append(job)
        join_lines(job)
        return 4, 4

    totals = compact.run(
        force=True, merger=holdfast.Merger(merge, "lines"), event=lambda event: events.append(event)
    )
    assert totals.groups_committed == 1 and totals.rows_out == 4 and len(jobs[0].sources) == 2
    assert not jobs[0].goes_on()  # after the merge
    assert [event.end for event in events if event.kind == "ended"] == ["committed"]
    assert sum(os.path.getsize(path) for path in files) == compact.chunks()[0].size


def test_an_exception_in_a_merger_is_raised_by_run(compact, files):
    compact.create(format="exec", command="lines {inputs} {output}")
    compact.ingest(*files)

    def merge(job):
        raise KeyError("merger")

    for mode in ("once", "drain"):
        with pytest.raises(KeyError, match="merger"):
            compact.run(mode, force=True, merger=merge)

    def event(event):
        raise KeyError("event")

    with pytest.raises(KeyError, match="event"):
        compact.run(force=True, merger=join_lines, event=event)
    assert len(compact.chunks()) == 2


def test_a_source_at_fault_is_quarantined(compact, files):
    compact.create(format="exec", command="lines {inputs} {output}")
    compact.ingest(*files)

    def merge(job):
        for number, source in enumerate(job.sources):
            with open(source.path, "rb") as file:
                if b"bob" in file.read():
                    raise holdfast.fault(number, "bob is not wanted here")

    compact.run(force=True, merger=merge)
    (bad,) = compact.chunks("quarantined")
    assert "bob" in bad.quarantine
    compact.unquarantine(bad.key)
    assert compact.chunks("quarantined") == []


def test_a_worker_watches_until_it_is_stopped(compact, files):
    compact.create(format="csv", key="id", time="at")
    merged = threading.Event()
    with compact.worker(
        force=True, poll=0.1, event=lambda event: merged.set() if event.end == "committed" else None
    ) as worker:
        with pytest.raises(holdfast.TimeoutError):
            worker.wait(0)
        compact.ingest(*files)
        assert merged.wait(30)
        worker.stop()
        assert worker.wait(30).groups_committed == 1
    assert worker.closed


def test_a_partition_is_paused(compact, files):
    compact.create(format="csv", key="id", time="at")
    compact.ingest(*files)
    compact.set(level0_count=2)
    assert compact.should_start()
    compact.pause("maintenance", "ada")
    with pytest.raises(holdfast.UnavailableError):
        compact.run()
    assert "maintenance" in compact.status().paused_why
    compact.resume()
    with pytest.raises(holdfast.InvalidError, match="unknown setting 'colour'"):
        compact.set(colour="red")
    with pytest.raises(holdfast.ConflictError):
        compact.create(format="usv", key="1")


def test_files_are_merged_without_a_store(files, tmp_path):
    told = []
    report = holdfast.merge(
        files,
        tmp_path / "now.csv",
        format="csv",
        key="id",
        time="at",
        progress=lambda done, total: told.append((done, total)),
    )
    assert report.rows_out == 3 and told[-1][0] == told[-1][1]
    assert (tmp_path / "now.csv").read_text().splitlines()[1] == "1,eve,1770372009"
    with pytest.raises(holdfast.NotFoundError):
        holdfast.merge([tmp_path / "absent"], tmp_path / "x", key="1")

    def stop(done, total):
        raise KeyError("progress")

    with pytest.raises(KeyError):
        holdfast.merge(files, tmp_path / "x", format="csv", key="id", progress=stop)
    assert not (tmp_path / "x").exists()


def test_members_are_ranked_with_a_store_and_without(client, name):
    work = holdfast.Work(level=1, parts={"writer-1": 40, "writer-2": 7})
    members = ["anna", "joe", "eve"]
    order = holdfast.elect_order(members, work)
    assert [holdfast.elect_rank(members, member, work) for member in order] == [0, 1, 2]
    assert holdfast.elect_starts_in(2, 10, 5) == 15
    with client.elect_join(name, name="anna") as anna, client.elect_join(name, name="joe") as joe:
        anna.look()
        assert sorted(anna.changes()) == [("anna", True), ("joe", True)] and anna.changes() == []
        assert sorted([anna.rank(work), joe.rank(work)]) == [0, 1] and anna.name == "anna"
        assert [(info.name, info.present) for info in client.elect_members(name)] == [
            ("anna", True),
            ("joe", True),
        ]
    assert client.elect_members(name) == []


def test_a_cascade_counts_levels():
    cascade = holdfast.Cascade(base=3)
    cascade.added(3)
    assert cascade.target == 1
    cascade.completed(1)
    assert cascade.target == 0 and cascade.counts[:3] == [0, 0, 1]
    with pytest.raises(holdfast.InvalidError):
        cascade.completed(9)
