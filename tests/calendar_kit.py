"""calendar_kit.py: a wall clock that a test can move, for the programs that it starts. A module."""

import os
import subprocess
import time

LIBRARY = os.path.join(os.environ["HOLDFAST_TEST_PROGRAMS"], "libcalendar.so")


class Calendar:
    """A wall clock, which is kept in a file. It starts as the true one."""

    def __init__(self, path):
        self.path = path
        self.move(0)

    def environment(self):
        """What a process must find in its environment to see it."""
        return {"LD_PRELOAD": LIBRARY, "HOLDFAST_TEST_CALENDAR": self.path}

    def move(self, seconds):
        """So far from the true time, for those that run too. Shows that it is so."""
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write(f"{seconds:+d}\n")
        os.rename(self.path + ".new", self.path)
        told = subprocess.run(["date", "+%s"], env={**os.environ, **self.environment()}, check=True,
                              stdout=subprocess.PIPE, timeout=60).stdout
        if abs(int(told) - time.time() - seconds) > 60:
            raise OSError(f"the wall clock could not be moved: {told}")
