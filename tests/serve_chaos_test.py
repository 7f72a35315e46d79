#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_chaos_test.py: servers that are killed and stopped under load, and an audit of what their clients
were told.

    serve_chaos_test.py kill STORE [--kills N]       one server, killed and started again
    serve_chaos_test.py stop STORE [--rounds N]      two and three servers, one stopped for longer than a ttl

STORE is sqlite or ceph. Prints TAP, and figures behind '#'. Clients (tests/serve_kit.py) acquire a
few keys, renew, update and release; each notes by its own monotonic clock what it sent and was told. The
audit (tests/serve_audit.py) shares no code with the servers.
"""

import argparse
import os
import random
import signal
import sys
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import chaos_kit
import serve_audit
from chaos_kit import say, tell
from serve_kit import Crew, Daemon, Keeper

CLIENTS = 8
TTL = 1.5              # of the leases, in seconds
KEEPER_TTL = 10.0
STOPPED = 2.5          # seconds, longer than a ttl
GRANTS_PER_ROUND = 12  # at least, between two kills
KILLS_PER_KEYS = 5     # then the clients use new keys


def report(events, expected):
    """Tells what the audit found. `expected` are figures that must not be zero."""
    wrong = serve_audit.judge(events)
    count = serve_audit.figures(events)
    say(", ".join(f"{name}: {figure}" for name, figure in sorted(count.items())))
    tell(not wrong, "no grant is forgotten or repeated, tokens rise, and no acknowledged update is lost",
         "\n".join(wrong))
    missing = [name for name in expected if not count[name]]
    tell(not missing, "the journal has what there is to judge", f"missing: {missing}" if missing else "")


def last_words(good, daemon):
    return "" if good else "\n".join(daemon.log[-10:])


def tell_kept(keeper):
    kept = keeper.stop()
    tell(kept, "a lease that is renewed is kept through all of it", keeper.lost or "")
    say(f"{keeper.renewals} renewals")


def kill_again_and_again(site, options):
    bucket, draw = site.bucket("kill"), random.Random(options.seed)
    daemon = Daemon(bucket.url, bucket.environment, os.path.join(site.folder, "serve.sock"))
    keeper = Keeper([daemon], KEEPER_TTL)
    crew = Crew([daemon], CLIENTS, TTL, options.seed)
    begun, stuck, kills = time.monotonic(), False, 0
    while kills < options.kills and not stuck:
        stuck = not crew.wait_for_grants(GRANTS_PER_ROUND)
        time.sleep(draw.random() * 0.1)
        daemon.kill()
        daemon.start()
        kills += 1
        if kills % KILLS_PER_KEYS == 0:
            crew.use_new_keys(kills // KILLS_PER_KEYS)
    stuck = not crew.wait_for_grants(GRANTS_PER_ROUND) or stuck
    say(f"{kills} kills in {time.monotonic() - begun:.1f} s, {crew.grants()} grants")
    tell(not stuck, "after every kill, clients are granted leases again", last_words(not stuck, daemon))
    events = crew.stop()
    tell_kept(keeper)
    ended = daemon.stop() == 0
    tell(ended, "the last server ends with status 0", last_words(ended, daemon))
    report(events, ["acquire 200", "acquire no reply", "update 200", "keepalive 200", "release 200",
                    "read 200"])


def stop_one_of(site, options, size):
    bucket, draw = site.bucket(f"stop-{size}"), random.Random(options.seed)
    daemons = [Daemon(bucket.url, bucket.environment, os.path.join(site.folder, f"{size}-{number}.sock"))
               for number in range(size)]
    keeper = Keeper(daemons, KEEPER_TTL)
    crew = Crew(daemons, CLIENTS, TTL, options.seed, timeout=TTL + 0.5)
    begun, stuck = time.monotonic(), False
    for number in range(options.rounds):
        crew.use_new_keys(number)
        stuck = not crew.wait_for_grants(GRANTS_PER_ROUND) or stuck
        daemon = draw.choice(daemons)
        daemon.send(signal.SIGSTOP)
        time.sleep(STOPPED)
        daemon.send(signal.SIGCONT)
    stuck = not crew.wait_for_grants(GRANTS_PER_ROUND) or stuck
    say(f"{size} servers, {options.rounds} stops in {time.monotonic() - begun:.1f} s, {crew.grants()} grants")
    tell(not stuck, f"{size} servers: clients are granted leases before and after every stop")
    events = crew.stop()
    tell_kept(keeper)
    tell([daemon.stop() for daemon in daemons] == [0] * size, "the servers end with status 0")
    report(events, ["acquire 200", "acquire no reply", "update 200", "release 200", "read 200"])


def stop_some(site, options):
    for size in (2, 3):
        stop_one_of(site, options, size)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("story", choices=["kill", "stop"])
    parser.add_argument("store", choices=["sqlite", "ceph"])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    say(f"--seed {options.seed}")
    missed = serve_audit.blind_spots()
    tell(not missed, "the audit finds what is wrong in forged journals, and nothing else", "\n".join(missed))
    story = {"kill": kill_again_and_again, "stop": stop_some}[options.story]
    return chaos_kit.play(lambda site: story(site, options), options.store)


if __name__ == "__main__":
    sys.exit(main())
