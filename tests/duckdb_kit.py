# SPDX-License-Identifier: Apache-2.0
"""duckdb_kit.py: DuckDB's own view of a file. It loads the library that `make setup-test` installs
(or $HOLDFAST_DUCKDB) by ctypes, and returns each value of a query as text, as DuckDB casts it.
"""

import ctypes
import os
import platform

TESTS = os.path.dirname(os.path.abspath(__file__))
ARCHITECTURES = {"aarch64": "arm64", "x86_64": "x64"}


def library_path():
    """The path of libduckdb.so, or None if it is not installed."""
    package = "node-bindings-linux-" + ARCHITECTURES.get(platform.machine(), "unknown")
    path = os.environ.get("HOLDFAST_DUCKDB") or os.path.join(
        TESTS, "servers", "node_modules", "@duckdb", package, "libduckdb.so")
    return path if os.path.exists(path) else None


class Result(ctypes.Structure):
    _fields_ = [("counts", ctypes.c_uint64 * 3), ("pointers", ctypes.c_void_p * 3)]


class DuckError(Exception):
    """What DuckDB says about a query that failed."""


def quote(text):
    return "'" + text.replace("'", "''") + "'"


def name(text):
    return '"' + text.replace('"', '""') + '"'


class Duck:
    """A connection to a database in memory."""

    def __init__(self, threads=1):
        self.library = ctypes.CDLL(library_path())
        pointer, index = ctypes.c_void_p, ctypes.c_uint64
        for function, result, arguments in [
                ("open", ctypes.c_int, [ctypes.c_char_p, pointer]),
                ("connect", ctypes.c_int, [pointer, pointer]),
                ("query", ctypes.c_int, [pointer, ctypes.c_char_p, pointer]),
                ("result_error", ctypes.c_char_p, [pointer]),
                ("row_count", index, [pointer]),
                ("column_count", index, [pointer]),
                ("value_is_null", ctypes.c_bool, [pointer, index, index]),
                ("value_varchar", pointer, [pointer, index, index]),
                ("free", None, [pointer]),
                ("destroy_result", None, [pointer])]:
            call = getattr(self.library, "duckdb_" + function)
            call.restype, call.argtypes = result, arguments
            setattr(self, "_" + function, call)
        self.database, self.connection = ctypes.c_void_p(), ctypes.c_void_p()
        if self._open(None, ctypes.byref(self.database)) != 0:
            raise DuckError("cannot open a database in memory")
        self._connect(self.database, ctypes.byref(self.connection))
        self.query(f"SET threads = {threads}")
        self.query("SET autoinstall_known_extensions = false")

    def _text(self, result, column, row):
        if self._value_is_null(result, column, row):
            return None
        value = self._value_varchar(result, column, row)
        if not value:
            raise DuckError("a nested value must be cast to VARCHAR")
        text = ctypes.string_at(value).decode()
        self._free(value)
        return text

    def query(self, sql):
        """The rows of a query, as tuples of text or None."""
        result = Result()
        address = ctypes.byref(result)
        try:
            if self._query(self.connection, sql.encode(), address) != 0:
                raise DuckError(self._result_error(address).decode())
            columns, rows = self._column_count(address), self._row_count(address)
            return [tuple(self._text(address, column, row) for column in range(columns))
                    for row in range(rows)]
        finally:
            self._destroy_result(address)

    def rows(self, path, what="*"):
        """The rows of a Parquet file, in the order of the file. DuckDB casts the values to text."""
        return self.query("SELECT COLUMNS(*)::VARCHAR FROM "
                          f"(SELECT {what} FROM read_parquet({quote(path)}))")

    def write(self, path, select, options=""):
        """Writes the rows of a query as a Parquet file."""
        self.query(f"COPY ({select}) TO {quote(path)} (FORMAT parquet{options})")
