# SPDX-License-Identifier: Apache-2.0
"""lock.py [URL]: acquires a lock, works under it, and releases it. For example: lock.py
sqlite:jobs.db"""

import sys

import holdfast

with holdfast.open(sys.argv[1] if len(sys.argv) > 1 else "mem:") as client:
    try:
        with client.lock("deploy", wait=60) as lock:
            print("it is ours, with token", lock.token)
            lock.check()  # before each critical step
            print("the work goes here")
    except holdfast.TimeoutError as error:
        sys.exit(f"somebody else holds it: {error}")
    except holdfast.LostError as error:
        sys.exit(f"the lease was lost, and the work stopped: {error}")
