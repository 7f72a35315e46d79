# SPDX-License-Identifier: Apache-2.0
"""calendar_kit.py: a wall clock that a test can move, for the programs that it starts."""

import os
import subprocess
import time

LIBRARY = os.path.join(os.environ["HOLDFAST_TEST_PROGRAMS"], "libcalendar.so")


class Calendar:
    """A wall clock whose offset is kept in a file. The offset is 0 at first."""

    def __init__(self, path):
        self.path = path
        self.move(0)

    def environment(self):
        """The environment variables that make a process use this clock."""
        return {"LD_PRELOAD": LIBRARY, "HOLDFAST_TEST_CALENDAR": self.path}

    def move(self, seconds):
        """Sets the offset from the true time, also for running processes, and checks that it works."""
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write(f"{seconds:+d}\n")
        os.rename(self.path + ".new", self.path)
        told = subprocess.run(["date", "+%s"], env={**os.environ, **self.environment()}, check=True,
                              stdout=subprocess.PIPE, timeout=60).stdout
        if abs(int(told) - time.time() - seconds) > 60:
            raise OSError(f"the wall clock could not be moved: {told}")
