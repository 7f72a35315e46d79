# SPDX-License-Identifier: Apache-2.0
"""async_lock.py [URL]: asyncio tasks that wait for a lock. A task that is cancelled leaves the
queue."""

import asyncio
import sys

import holdfast


async def work(client: holdfast.Client, number: int) -> None:
    async with client.lock("deploy"):
        print("task", number)


async def main() -> None:
    with holdfast.open(sys.argv[1] if len(sys.argv) > 1 else "mem:") as client:
        await asyncio.gather(*(work(client, number) for number in range(3)))
        async with client.lock("deploy"):
            try:
                await asyncio.wait_for(client.lock("deploy").acquire_async(), 0.1)
            except asyncio.TimeoutError:
                print("it is held, and nobody waits any more")


asyncio.run(main())
