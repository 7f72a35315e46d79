# SPDX-License-Identifier: Apache-2.0
"""_merge.py: merges files of records, without a store. See holdfast/merge.h."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Callable, List, Mapping, Optional, Sequence

from . import _abi
from ._errors import InvalidError, Status
from ._library import Path, members_of, optional, path_bytes, string, texts
from ._observe import Guard

FORMATS = {
    "usv": _abi.HF_MERGE_USV,
    "csv": _abi.HF_MERGE_CSV,
    "tsv": _abi.HF_MERGE_TSV,
    "ndjson": _abi.HF_MERGE_NDJSON,
    "concat": _abi.HF_MERGE_CONCAT,
    "exec": _abi.HF_MERGE_EXEC,
    "parquet": _abi.HF_MERGE_PARQUET,
}
CODINGS = {
    "auto": _abi.HF_MERGE_AUTO,
    "none": _abi.HF_MERGE_PLAIN,
    "gzip": _abi.HF_MERGE_GZIP,
    "zstd": _abi.HF_MERGE_ZSTD,
}


def choose(name: str, value: str, values: Mapping[str, int]) -> int:
    """The constant of a word."""
    try:
        return values[value]
    except KeyError:
        raise InvalidError(
            Status.INVALID, f"unknown {name} '{value}': use {', '.join(values)}", ""
        ) from None


@dataclass(frozen=True)
class MergeReport:
    """The result of a merge (struct hf_merge_report). `reasons` says why the first few rows were
    rejected."""

    rows_counted: bool
    rejects_kept: bool
    zone_missing: bool
    rows_in: int
    rows_out: int
    rows_superseded: int
    rows_rejected: int
    bytes_in: int
    bytes_out: int
    bytes_spilled: int
    inputs_unsorted: int
    took: float
    reasons: List[str]
    rows_deleted: int


def merge(
    inputs: Sequence[Path],
    output: Path,
    *,
    format: str = "usv",
    key: Optional[str] = None,
    time: Optional[str] = None,
    zone: Optional[str] = None,
    headless: bool = False,
    coding: str = "auto",
    memory_bytes: int = 0,
    rejects_max: int = 0,
    deleted: Optional[str] = None,
    progress: Optional[Callable[[int, int], object]] = None,
) -> MergeReport:
    """Merges files into one, which appears only when it is complete. With a key and a time, the
    latest record of each key is kept. `progress` is called with the bytes done and the total;
    False stops it.
    """
    report = _abi.hf_merge_report.new()
    options = _abi.hf_merge_options.new(
        format=choose("format", format, FORMATS),
        key=optional(key),
        time=optional(time),
        zone=optional(zone),
        headless=headless,
        coding=choose("coding", coding, CODINGS),
        memory_bytes=memory_bytes,
        rejects_max=rejects_max,
        deleted=optional(deleted),
    )
    told = progress or (lambda done, total: True)
    guard = Guard()
    options.progress = guard.each(
        _abi.hf_merge_options_progress,
        lambda so_far: told(so_far.contents.bytes_done, so_far.contents.bytes_total),
    )
    guard.call(
        "hf_merge",
        texts([path_bytes(path) for path in inputs]),
        len(inputs),
        path_bytes(output),
        ctypes.byref(options),
        ctypes.byref(report),
    )
    values = members_of(report, skip=("struct_size", "reason_count"))
    values["reasons"] = [string(report.reasons[i].value) for i in range(report.reason_count)]
    return MergeReport(**values)
