# SPDX-License-Identifier: Apache-2.0
"""_errors.py: one exception for each status of the library."""

from __future__ import annotations

import builtins
import enum
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple, Type

from . import _abi

if TYPE_CHECKING:
    from ._key import KeyInfo


class Status(enum.IntEnum):
    """How a call ended. See enum hf_status in holdfast/base.h."""

    OK = _abi.HF_OK
    NOT_FOUND = _abi.HF_NOT_FOUND
    NOT_MODIFIED = _abi.HF_NOT_MODIFIED
    CONFLICT = _abi.HF_CONFLICT
    UNSURE = _abi.HF_UNSURE
    UNAVAILABLE = _abi.HF_UNAVAILABLE
    DENIED = _abi.HF_DENIED
    INVALID = _abi.HF_INVALID
    UNSUPPORTED = _abi.HF_UNSUPPORTED
    CORRUPT = _abi.HF_CORRUPT
    HELD = _abi.HF_HELD
    LOST = _abi.HF_LOST
    EXPIRED = _abi.HF_EXPIRED
    MISMATCH = _abi.HF_MISMATCH
    FENCED = _abi.HF_FENCED
    TIMEOUT = _abi.HF_TIMEOUT
    CANCELLED = _abi.HF_CANCELLED
    ALREADY = _abi.HF_ALREADY
    UNREPORTED = _abi.HF_UNREPORTED


class Error(Exception):
    """What the library could not do.

    `status` says how to proceed, `message` gives the reason in words, and `call` names the
    function of the C library. `info` is the version of a key, if the call returned one.
    """

    def __init__(
        self, status: int, message: str, call: str, info: Optional[KeyInfo] = None
    ) -> None:
        super().__init__(message)
        try:
            self.status: int = Status(status)
        except ValueError:
            self.status = status  # of a later version of the library
        self.message = message
        self.call = call
        self.info = info

    def __reduce__(self) -> Tuple[Any, ...]:
        # By default, an exception is unpickled from its args, which are only the message.
        made_of = (int(self.status), self.message, self.call, self.info)
        return type(self), made_of, self.__dict__

    def __str__(self) -> str:
        return self.message or (
            self.status.name if isinstance(self.status, Status) else f"status {self.status}"
        )


class NotFoundError(Error, LookupError):
    """There is no such object, key or lease."""


class NotModifiedError(Error):
    """The object still has the given ETag."""


class ConflictError(Error):
    """Another client wrote first: read again, then retry."""


class UnsureError(Error):
    """The write may or may not have happened, and may still happen."""


class UnavailableError(Error):
    """Not done; it may work later."""


class DeniedError(Error, PermissionError):
    """Not allowed: check the credentials or permissions."""


class InvalidError(Error, ValueError):
    """The request is not valid: correct it."""


class ClosedError(InvalidError):
    """The object was closed, or belongs to the parent of this process."""


class UnsupportedError(Error):
    """This store or build cannot do that."""


class CorruptError(Error):
    """Stored data is damaged: inspect it before you continue."""


class HeldError(Error):
    """Another client holds it."""


class LostError(Error):
    """The lease is lost: stop the work that it protected."""


class ExpiredError(LostError):
    """The lease ended before the call. It is lost, so `except LostError` catches this too."""


class MismatchError(Error):
    """It belongs to a different lock or lease."""


class FencedError(Error):
    """A later holder has already written: the token is stale."""


class TimeoutError(Error, builtins.TimeoutError):
    """The time limit has passed; nothing was changed."""


class CancelledError(Error):
    """Stopped at the caller's request."""


class AlreadyError(Error):
    """Already done within the given period."""


class UnreportedError(Error):
    """Done, but the result could not be written."""


BY_STATUS: Dict[int, Type[Error]] = {
    Status.NOT_FOUND: NotFoundError,
    Status.NOT_MODIFIED: NotModifiedError,
    Status.CONFLICT: ConflictError,
    Status.UNSURE: UnsureError,
    Status.UNAVAILABLE: UnavailableError,
    Status.DENIED: DeniedError,
    Status.INVALID: InvalidError,
    Status.UNSUPPORTED: UnsupportedError,
    Status.CORRUPT: CorruptError,
    Status.HELD: HeldError,
    Status.LOST: LostError,
    Status.EXPIRED: ExpiredError,
    Status.MISMATCH: MismatchError,
    Status.FENCED: FencedError,
    Status.TIMEOUT: TimeoutError,
    Status.CANCELLED: CancelledError,
    Status.ALREADY: AlreadyError,
    Status.UNREPORTED: UnreportedError,
}


def error_of(status: int, why: str, call: str, info: Optional[KeyInfo] = None) -> Error:
    """The exception for a status that is not OK."""
    return BY_STATUS.get(status, Error)(status, why, call, info)
