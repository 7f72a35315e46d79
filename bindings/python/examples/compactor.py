# SPDX-License-Identifier: Apache-2.0
"""compactor.py [URL]: compacts files in your own format: a function in Python merges, and the
library plans, leases and commits. Any number of compactors may run at once, on any machines."""

import sys
import tempfile

import holdfast


def merge(job: holdfast.MergeJob) -> None:
    """Our format consists of lines. A merge sorts them."""
    lines = []
    for source in job.sources:
        with open(source.path, "rb") as file:
            lines += file.readlines()
        if not job.goes_on(source.size):
            raise holdfast.CancelledError(holdfast.Status.CANCELLED, "stopped", "")
    with open(job.output, "wb") as output:
        output.writelines(sorted(lines))


with holdfast.open(sys.argv[1] if len(sys.argv) > 1 else "mem:") as client, client.compact(
    "lines"
) as lines:
    lines.create(
        format="exec", command="lines {inputs} {output}"
    )  # the first word names the merger
    with tempfile.TemporaryDirectory() as folder:
        for name in ("one", "two"):
            with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                file.write(f"{name}\n")
            lines.ingest(f"{folder}/{name}")
    totals = lines.run(force=True, merger=holdfast.Merger(merge, "lines"))
    print(totals.groups_committed, "merged")
