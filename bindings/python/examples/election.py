# SPDX-License-Identifier: Apache-2.0
"""election.py [URL]: which member of a group starts a piece of work first."""

import sys

import holdfast

with holdfast.open(sys.argv[1] if len(sys.argv) > 1 else "mem:") as client:
    with client.elect_join("builders", label="an example") as member:
        work = holdfast.Work(level=1, parts={"writer-1": 40, "writer-2": 7})
        rank = member.rank(work)
        print(
            "rank",
            rank,
            "may start in",
            holdfast.elect_starts_in(rank, step=10, due_for=0),
            "seconds",
        )
