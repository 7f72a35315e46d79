# SPDX-License-Identifier: Apache-2.0
"""_elect.py: elections without messages. See holdfast/elect.h."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence, Tuple

from . import _abi
from ._handle import ClosingHandle, Core
from ._library import call, lib, milliseconds, optional, seconds, string, text, texts
from ._observe import Guard

if TYPE_CHECKING:
    from ._client import Client


@dataclass(frozen=True)
class Work:
    """A piece of work, described by the state of a document (struct hf_elect_work): the sequence
    of each writer."""

    level: int = 0
    base: int = 0
    parts: Mapping[str, int] = field(default_factory=dict)

    def _struct(self) -> Any:
        parts = (_abi.hf_elect_part * len(self.parts))(
            *(_abi.hf_elect_part(text(writer), sequence) for writer, sequence in self.parts.items())
        )
        return _abi.hf_elect_work.new(
            level=self.level, base=self.base, parts=parts, part_count=len(self.parts)
        )


@dataclass(frozen=True)
class MemberInfo:
    """A listed member (struct hf_elect_info)."""

    name: str
    present: bool
    beaten: float


def elect_rank(members: Sequence[str], own: str, work: Work = Work()) -> int:
    """How many of the members come before `own`. Rank 0 leads. Needs no store: everyone with the
    same members and work computes the same ranks."""
    rank = ctypes.c_size_t()
    call(
        "hf_elect_rank",
        ctypes.byref(work._struct()),
        texts(members),
        len(members),
        text(own),
        ctypes.byref(rank),
        None,
    )
    return rank.value


def elect_order(members: Sequence[str], work: Work = Work()) -> List[str]:
    """The members in the order of their ranks: the leader comes first."""
    places = (_abi.hf_elect_place * len(members))()
    call("hf_elect_order", ctypes.byref(work._struct()), texts(members), len(members), places)
    return [members[place.member] for place in places]


def elect_starts_in(rank: int, step: float, due_for: float) -> float:
    """In how many seconds a member of this rank may start work that is due for `due_for`."""
    return seconds(lib.hf_elect_starts_in_ms(rank, milliseconds(step), milliseconds(due_for)))


class Cascade:
    """Which level to compact into: a counter with one digit per level (struct hf_cascade)."""

    def __init__(self, counts: Sequence[int] = (), base: int = 0) -> None:
        self.base = base
        self._struct = _abi.hf_cascade()
        for level, count in enumerate(counts):
            self._struct.counts[level] = count

    @property
    def counts(self) -> List[int]:
        """The entries made at the level below each level, since the last compaction into it."""
        return list(self._struct.counts)

    @property
    def target(self) -> int:
        """The level to compact into, or 0 if nothing is due."""
        return int(lib.hf_cascade_target(ctypes.byref(self._struct), self.base))

    def added(self, count: int = 1) -> None:
        """Entries were added at level 0."""
        lib.hf_cascade_added(ctypes.byref(self._struct), count)

    def completed(self, level: int) -> None:
        """Everything below a level has become one entry at that level."""
        call("hf_cascade_completed", ctypes.byref(self._struct), level)


class Member(ClosingHandle):
    """This client's membership in a group. Made by Client.elect_join; `with` leaves the group at
    the end."""

    def __init__(
        self,
        client: Client,
        group: str,
        name: Optional[str],
        label: Optional[str],
        beat: float,
        by_hand: bool,
    ) -> None:
        self.client, self.group = client, group
        options = _abi.hf_elect_options.new(
            name=optional(name), label=optional(label), beat_ms=milliseconds(beat), by_hand=by_hand
        )
        pointer = ctypes.c_void_p()
        with client._core as owner:
            call("hf_elect_join", owner, text(group), ctypes.byref(options), ctypes.byref(pointer))
        self._own(Core(pointer, lib.hf_elect_leave, "member", client._core))

    @property
    def name(self) -> str:
        """The name of this member."""
        with self._core as pointer:
            return string(lib.hf_elect_name(pointer))

    def leave(self) -> None:
        """Leaves the group. The same as close."""
        self.close()

    def detach(self) -> None:
        """Closes the object, but leaves the member in the group for a process that joins under its
        name."""
        self._core.close_by(lib.hf_elect_detach)

    def keep(self) -> None:
        """Sends a heartbeat if one is due. Only needed with by_hand=True."""
        with self._core as pointer:
            call("hf_elect_keep", pointer)

    def look(self) -> None:
        """Lists the group again now."""
        with self._core as pointer:
            call("hf_elect_look", pointer)

    def changes(self) -> List[Tuple[str, bool]]:
        """Which members have appeared (True) or disappeared (False) since the last call. The first
        call reports all that are present. Makes no request."""
        found: List[Tuple[str, bool]] = []
        guard = Guard(self._core)
        each = guard.each(
            _abi.hf_elect_changes_each, lambda name, present: found.append((string(name), present))
        )
        guard.call("hf_elect_changes", each, None)
        return found

    def rank(self, work: Work = Work()) -> int:
        """The rank of this member among those that are present; 0 leads. Makes no request."""
        rank = ctypes.c_size_t()
        with self._core as pointer:
            call(
                "hf_elect_rank_own", pointer, ctypes.byref(work._struct()), ctypes.byref(rank), None
            )
        return rank.value


def members_of_group(client: Client, group: str, beat: float) -> List[MemberInfo]:
    found: List[MemberInfo] = []

    def one(info: Any) -> None:
        member = info.contents
        found.append(MemberInfo(string(member.name), member.present, seconds(member.beaten_ms)))

    guard = Guard(client._core)
    guard.call(
        "hf_elect_members",
        text(group),
        milliseconds(beat),
        guard.each(_abi.hf_elect_members_each, one),
        None,
    )
    return found
