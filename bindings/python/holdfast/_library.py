# SPDX-License-Identifier: Apache-2.0
"""_library.py: loads libholdfast, and calls it.

`lib.hf_x(...)` is a plain call. `call("hf_x", ...)` adds the `struct hf_error` that every call
with a status takes last, and raises the exception of a status that is not OK. ctypes releases the
GIL during a call, so other Python threads run.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import sizeof
from typing import Any, Dict, Iterable, Optional, Tuple, Union

from . import _abi
from ._errors import InvalidError, Status, UnsupportedError, error_of

SONAME = "libholdfast.so.0"


def _load() -> ctypes.CDLL:
    name = os.environ.get("HOLDFAST_LIBRARY") or SONAME
    try:
        return ctypes.CDLL(name)
    except OSError as why:
        raise ImportError(
            f"cannot load {name}: {why}. Install libholdfast0, or set HOLDFAST_LIBRARY to the path "
            "of the library."
        ) from None


class _Library:
    """The functions of the library, each with its prototype from the first use on."""

    def __init__(self) -> None:
        self._dll = _load()

    def __getattr__(self, name: str) -> Any:
        result, *parameters = _abi.FUNCTIONS[name]
        try:
            function = self._dll[name]
        except AttributeError:
            raise UnsupportedError(
                Status.UNSUPPORTED, "a later version of libholdfast is needed", name
            ) from None
        function.restype, function.argtypes = result, parameters
        setattr(self, name, function)
        return function


lib = _Library()


def status_of(name: str, *arguments: Any) -> Tuple[int, str]:
    """The status of a call, and the reason."""
    error = _abi.hf_error()
    status: int = getattr(lib, name)(*arguments, ctypes.byref(error))
    return status, error.why.decode("utf-8", "replace")


def call(name: str, *arguments: Any) -> None:
    """Makes a call, and raises if its status is not OK."""
    status, why = status_of(name, *arguments)
    if status != _abi.HF_OK:
        raise error_of(status, why, name)


# ---- Values -------------------------------------------------------------------------------------

Buffer = Union[bytes, bytearray, memoryview]
Path = Union[str, "os.PathLike[str]"]


def text(value: str) -> bytes:
    """A string as C takes it. A NUL byte would end it there, so it is refused."""
    if not isinstance(value, str):
        raise TypeError(f"expected a str, got {type(value).__name__}")
    if "\0" in value:
        raise InvalidError(Status.INVALID, "the text contains a NUL character", "")
    return value.encode("utf-8", "surrogateescape")


def optional(value: Optional[str]) -> Optional[bytes]:
    return None if value is None else text(value)


def string(value: Optional[bytes]) -> str:
    return (value or b"").decode("utf-8", "surrogateescape")


def blob(value: Buffer) -> bytes:
    """Bytes as C takes them. ctypes would take a str for something else."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"expected bytes, got {type(value).__name__}")


def path_bytes(value: Path) -> bytes:
    return text(os.fspath(value))


def texts(values: Iterable[Union[str, bytes]]) -> Any:
    """An array of strings."""
    encoded = [value if isinstance(value, bytes) else text(value) for value in values]
    return (ctypes.c_char_p * len(encoded))(*encoded)


def milliseconds(seconds: Optional[float]) -> int:
    """Seconds as C counts them; None and infinity: for ever."""
    if seconds is None or seconds == float("inf"):
        return _abi.HF_WAIT_FOREVER
    if seconds != seconds or abs(seconds) > 1e15:
        raise InvalidError(Status.INVALID, f"{seconds} is not a number of seconds", "")
    return round(seconds * 1000)


def seconds(milliseconds_: int) -> float:
    return milliseconds_ / 1000


def take_bytes(pointer: ctypes.c_void_p, size: int) -> bytes:
    """The bytes that a call allocated, which are freed."""
    try:
        return ctypes.string_at(pointer, size) if pointer else b""
    finally:
        lib.hf_free(pointer)


def members_of(struct: Any, skip: Tuple[str, ...] = ("struct_size",)) -> Dict[str, Any]:
    """The members of a report: text as str, and times in seconds, without the end _ms of their
    names."""
    found: Dict[str, Any] = {}
    if getattr(struct, "struct_size", sizeof(struct)) < sizeof(struct):
        struct = _grown(struct)
    for name, *_kind in struct._fields_:
        if name in skip:
            continue
        value = getattr(struct, name)
        if isinstance(value, bytes):
            value = string(value)
        if name.endswith("_ms"):
            name, value = name[:-3], seconds(value)
        found[name] = value
    return found


def _grown(struct: Any) -> Any:
    """A struct of an earlier version of the library, in which later members are zero."""
    copy = type(struct)()
    ctypes.memmove(ctypes.byref(copy), ctypes.byref(struct), struct.struct_size)
    return copy


def version() -> str:
    """The version of libholdfast, such as "1.0.0"."""
    return string(lib.hf_version())
