#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""api_ctypes_test.py sqlite|ceph: a Python program that uses the shared library by ctypes, with what the headers say and nothing
else: every call takes what it takes in C, and a struct is laid out as there. One row of CASES for each part.
tests/api_user.cc does the same in C++.
"""

import ctypes
import os
import re
import sys
import tempfile

from api_kit import store_of
from tap_kit import end, tell

LIBRARY = os.path.join(os.environ["HOLDFAST_BUILD"], "src/libholdfast.so")
INCLUDE = os.path.join(os.environ["HOLDFAST_TESTS"], "../include/holdfast")
OK, CONFLICT, HELD = "OK", "CONFLICT", "HELD"


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("why", ctypes.c_char * 240)]


class LockOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("ttl_ms", ctypes.c_int64), ("mode", ctypes.c_int),
                ("slots", ctypes.c_uint32), ("no_renewal", ctypes.c_bool), ("poll_ms", ctypes.c_int64),
                ("once_per_ms", ctypes.c_int64), ("once_slack_ms", ctypes.c_int64), ("output", ctypes.c_char_p),
                ("level", ctypes.c_uint32), ("note", ctypes.c_char_p), ("notify", ctypes.c_void_p),
                ("notify_argument", ctypes.c_void_p)]


class KeyInfo(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("outcome", ctypes.c_int), ("version", ctypes.c_uint64),
                ("etag", ctypes.c_char * 33), ("size", ctypes.c_uint64), ("token", ctypes.c_uint64),
                ("updated_ms", ctypes.c_int64), ("removed", ctypes.c_bool), ("txn", ctypes.c_char * 33)]


class KeyIf(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("version_set", ctypes.c_bool), ("version", ctypes.c_uint64),
                ("etag", ctypes.c_char_p)]


NOTIFY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)


def sized(kind, **members):
    return kind(struct_size=ctypes.sizeof(kind), **members)


class Library:
    """library.hf_x(...) raises what is not OK; library.status("hf_x", ...) tells the status by its name."""

    def __init__(self):
        self.dll = ctypes.CDLL(LIBRARY)
        self.dll.hf_status_name.restype = ctypes.c_char_p
        self.dll.hf_lock_token.restype = ctypes.c_uint64
        self.dll.hf_version.restype = ctypes.c_char_p
        self.error = Error()

    def status(self, name, *arguments):
        status = getattr(self.dll, name)(*arguments, ctypes.byref(self.error))
        return self.dll.hf_status_name(status).decode()

    def __getattr__(self, name):
        def call(*arguments):
            status = self.status(name, *arguments)
            if status != OK:
                raise RuntimeError(f"{name}: {status}: {self.error.why.decode()}")
        return call


library = Library()


def handle():
    return ctypes.c_void_p()


def data(pointer, size):
    found = ctypes.string_at(pointer, size.value)
    library.dll.hf_free(pointer)
    return found


def read_key(client, name):
    pointer, size = handle(), ctypes.c_size_t()
    library.hf_key_get(client, name, ctypes.c_size_t(100), ctypes.byref(pointer), ctypes.byref(size), None)
    return data(pointer, size)


def wait_ms(number):
    return ctypes.c_int64(number)


def use_lock(client):
    lock, other, told = handle(), handle(), []
    notify = NOTIFY(lambda argument, lock, event: told.append(event))
    options = sized(LockOptions, ttl_ms=10000, notify=ctypes.cast(notify, ctypes.c_void_p))
    library.hf_lock_new(client, b"python/lock", ctypes.byref(options), ctypes.byref(lock))
    library.hf_lock_new(client, b"python/lock", None, ctypes.byref(other))
    library.hf_lock_acquire(lock, wait_ms(1000))
    held = library.status("hf_lock_acquire", other, wait_ms(0)) == HELD
    token = library.dll.hf_lock_token(lock)
    library.hf_lock_release(lock)
    library.hf_lock_acquire(other, wait_ms(1000))
    rises = library.dll.hf_lock_token(other) > token
    library.dll.hf_lock_free(other)
    library.dll.hf_lock_free(lock)
    return held and rises


def use_fenced(client):
    lock, pointer, size, token = handle(), handle(), ctypes.c_size_t(), ctypes.c_uint64()
    library.hf_lock_new(client, b"python/fence", None, ctypes.byref(lock))
    library.hf_lock_acquire(lock, wait_ms(1000))
    library.hf_fenced_put(lock, b"python/object", b"hello", ctypes.c_size_t(5))
    library.hf_fenced_get(client, b"python/object", ctypes.c_size_t(100), ctypes.byref(pointer), ctypes.byref(size),
                          ctypes.byref(token))
    good = data(pointer, size) == b"hello" and token.value == library.dll.hf_lock_token(lock)
    library.dll.hf_lock_free(lock)
    return good


def use_key(client):
    key, info = handle(), sized(KeyInfo)
    library.hf_key_new(client, b"python/key", None, ctypes.byref(key))
    library.hf_key_acquire(key, wait_ms(1000), None)
    library.hf_key_update(key, b"one", ctypes.c_size_t(3), None, ctypes.byref(info))
    version = sized(KeyIf, version_set=True, version=info.version + 1)
    refused = library.status("hf_key_update", key, b"two", ctypes.c_size_t(3), ctypes.byref(version),
                             ctypes.byref(info)) == CONFLICT
    library.hf_key_release(key, 0)
    library.dll.hf_key_free(key)
    return refused and read_key(client, b"python/key") == b"one"


def use_transaction(client):
    txn, keys, decision = handle(), (ctypes.c_void_p * 2)(), ctypes.c_int(1)
    names = (ctypes.c_char_p * 2)(b"python/ann", b"python/joe")
    library.hf_txn_begin(client, None, ctypes.byref(txn))
    library.hf_txn_acquire(txn, names, ctypes.c_size_t(2), None, wait_ms(1000), keys)
    library.hf_key_update(ctypes.c_void_p(keys[0]), b"60", ctypes.c_size_t(2), None, None)
    library.hf_key_update(ctypes.c_void_p(keys[1]), b"40", ctypes.c_size_t(2), None, None)
    library.hf_txn_commit(txn, ctypes.byref(decision))
    library.dll.hf_txn_free(txn)
    return decision.value == 0 and [read_key(client, name) for name in names] == [b"60", b"40"]


class IndexOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("fields", ctypes.POINTER(ctypes.c_char_p)),
                ("field_count", ctypes.c_size_t), ("key", ctypes.c_char_p), ("time", ctypes.c_char_p),
                ("digits", ctypes.c_uint), ("no_foreign", ctypes.c_bool)]


def use_index(client):
    index, record = handle(), handle()
    fields = (ctypes.c_char_p * 3)(b"host", b"owner", b"seen")
    options = sized(IndexOptions, fields=fields, field_count=3, key=b"host", time=b"seen")
    values = (ctypes.c_char_p * 4)(b"host", b"a.example", b"owner", b"ada")
    library.hf_index_create(client, b"python", ctypes.byref(options), None, ctypes.byref(index))
    library.hf_index_put(index, values, ctypes.c_size_t(2))
    library.hf_index_compile(index, None, None)
    library.hf_index_get(index, b"a.example", ctypes.byref(record))
    library.dll.hf_index_record_value.restype = ctypes.c_char_p
    found = library.dll.hf_index_record_value(record, b"owner", None)
    library.dll.hf_index_record_free(record)
    library.dll.hf_index_close(index)
    return found == b"ada"


class Order(ctypes.Structure):
    """struct hf_merge_options and hf_compact_settings, as a program knows them that was compiled when there were no
    more members: the others have their defaults."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("format", ctypes.c_int), ("key", ctypes.c_char_p)]


def use_merge(_client):
    with tempfile.TemporaryDirectory(prefix="holdfast-ctypes-") as folder:
        paths = [os.path.join(folder, name) for name in ("1", "2", "out")]
        for path, text in zip(paths, (b"b\n", b"a\n")):
            with open(path, "wb") as file:
                file.write(text)
        inputs = (ctypes.c_char_p * 2)(*(path.encode() for path in paths[:2]))
        library.hf_merge(inputs, ctypes.c_size_t(2), paths[2].encode(), ctypes.byref(sized(Order, key=b"1")), None)
        with open(paths[2], "rb") as file:
            return file.read() == b"a\nb\n"


def use_election(client):
    member, ranks = handle(), []
    members = (ctypes.c_char_p * 2)(b"anna", b"joe")
    for name in members:
        rank = ctypes.c_size_t(9)
        library.hf_elect_rank(None, members, ctypes.c_size_t(2), name, ctypes.byref(rank), None)
        ranks.append(rank.value)
    rank = ctypes.c_size_t(9)
    library.hf_elect_join(client, b"python", None, ctypes.byref(member))
    library.hf_elect_rank_own(member, None, ctypes.byref(rank), None)
    library.dll.hf_elect_leave(member)
    return sorted(ranks) == [0, 1] and rank.value == 0


class Merger(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("merge", ctypes.c_void_p),
                ("argument", ctypes.c_void_p)]


class MergerSource(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("path", ctypes.c_char_p), ("size", ctypes.c_uint64)]


class MergerJob(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("sources", ctypes.POINTER(MergerSource)),
                ("source_count", ctypes.c_size_t), ("partition", ctypes.c_char_p), ("level", ctypes.c_uint),
                ("output", ctypes.c_char_p)]


class WorkerOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("mode", ctypes.c_int), ("force", ctypes.c_bool),
                ("jobs", ctypes.c_uint), ("threads", ctypes.c_uint), ("memory_bytes", ctypes.c_uint64),
                ("poll_ms", ctypes.c_int64), ("label", ctypes.c_char_p), ("merger", ctypes.POINTER(Merger)),
                ("event", ctypes.c_void_p), ("argument", ctypes.c_void_p)]


MERGE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(MergerJob), ctypes.c_void_p, ctypes.c_void_p)


def use_compaction(client):
    compact, merged = handle(), []

    def join(_argument, job, _merged, _error):
        sources = [job[0].sources[i].path for i in range(job[0].source_count)]
        with open(job[0].output, "wb") as output:
            for source in sources:
                with open(source, "rb") as file:
                    output.write(file.read())
        merged.append(len(sources))
        return 0

    merge = MERGE(join)
    merger = sized(Merger, merge=ctypes.cast(merge, ctypes.c_void_p))
    options = sized(WorkerOptions, force=True, merger=ctypes.pointer(merger))
    with tempfile.TemporaryDirectory(prefix="holdfast-ctypes-") as folder:
        paths = [os.path.join(folder, name) for name in ("1", "2")]
        for path in paths:
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"{path}\n")
        library.hf_compact_open(client, b"python", None, ctypes.byref(compact))
        library.hf_compact_create(compact, ctypes.byref(sized(Order, key=b"1")))
        library.hf_compact_ingest(compact, (ctypes.c_char_p * 2)(*(path.encode() for path in paths)), ctypes.c_size_t(2),
                                  None, None)
        library.hf_compact_run(compact, ctypes.byref(options), None)
        library.dll.hf_compact_close(compact)
    return merged == [2]


CASES = [
    ("a lock is held alone, and tokens rise", use_lock),
    ("a fenced object is written and read", use_fenced),
    ("a key is changed under its lease, and only as the version that was named", use_key),
    ("a transaction changes two keys", use_transaction),
    ("a merge makes one file of two", use_merge),
    ("compaction calls a merger that is a Python function", use_compaction),
    ("an index finds a record that was put and compiled", use_index),
    ("an election ranks, with a store and without one", use_election),
]


def check_layouts():
    """What is spelled out here has the members of the headers, in their order."""
    text = ""
    for name in sorted(os.listdir(INCLUDE)):
        with open(os.path.join(INCLUDE, name), encoding="utf-8") as file:
            text += re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    for kind, name in ((Error, "hf_error"), (LockOptions, "hf_lock_options"), (KeyInfo, "hf_key_info"), (KeyIf, "hf_key_if"),
                       (IndexOptions, "hf_index_options"), (Merger, "hf_merger"), (MergerSource, "hf_merger_source"),
                       (MergerJob, "hf_merger_job"), (WorkerOptions, "hf_compact_worker_options")):
        body = re.search(r"struct %s \{(.*?)\n\};" % name, text, re.S).group(1)
        members = [re.search(r"\(\*(\w+)\)|(\w+)(?:\[[^]]*\])?\s*$", member.strip()) for member in body.split(";") if member.strip()]
        members = [match.group(1) or match.group(2) for match in members]
        tell(members[:len(kind._fields_)] == [field[0] for field in kind._fields_],
             f"struct {name} is laid out as in the header")


def main(arguments):
    check_layouts()
    with store_of(arguments[0]) as (url, environment):
        os.environ.update(environment)
        for sentence, use in CASES:
            client = handle()
            try:
                library.hf_client_open(url.encode(), None, ctypes.byref(client))
                tell(use(client), f"Python: {sentence}")
            except RuntimeError as why:
                tell(False, f"Python: {sentence}", str(why))
            library.dll.hf_client_close(client)
    return end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
