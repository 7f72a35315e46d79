# SPDX-License-Identifier: Apache-2.0
"""fenced_writer.py [URL]: writes an object that refuses a writer whose lease has ended."""

import sys

import holdfast

with holdfast.open(sys.argv[1] if len(sys.argv) > 1 else "mem:") as client:
    with client.lock("report", wait=60) as lock:
        lock.fenced_put("out/report.txt", b"all is well\n")
    data, token = client.fenced_get("out/report.txt")
    print("written with token", token, data)
