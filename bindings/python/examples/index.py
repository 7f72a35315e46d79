# SPDX-License-Identifier: Apache-2.0
"""index.py [URL]: the latest record of each host."""

import sys

import holdfast

with holdfast.open(sys.argv[1] if len(sys.argv) > 1 else "mem:") as client:
    with client.create_index("hosts", ["host", "owner", "seen"], key="host", time="seen") as hosts:
        hosts.put(host="a.example", owner="ada")  # seen: now
        hosts.put_many(
            [{"host": "b.example", "owner": "joe"}, {"host": "c.example", "owner": "ada"}]
        )
        hosts.compile()  # any time, on any machine; readers never wait for it
        print(hosts.get("a.example")["owner"])
        print([record["host"] for record in hosts.query(where="owner = ada", sort="host")])
