# SPDX-License-Identifier: Apache-2.0
"""serve_audit.py: judges what clients of servers have noted in their journals. It knows docs/serve.md,
and nothing else of the servers:

    grants    while a lease is certain to be valid, nobody else is granted the same key
    tokens    every grant has its own token, and a later grant has a higher one
    uses      a lease is not refused while it is certain to be valid
    states    updates and reads of a key have an order that explains all replies (tests/linear.py): an
              update that was acknowledged is never lost, one that was refused never shows

Times are those of the client's own monotonic clock. A lease is certain to be valid from its reply until
the time of sending plus waited_ms plus remaining_ms, or until its release is sent.
"""

import collections

import linear

# One request. `status` is None if there was no reply; `said` is the JSON of the reply.
Event = collections.namedtuple("Event", "client kind key sent got status word said lease value",
                               defaults=({}, None, None))

ENDED = ("lease_expired", "lease_required")
NOT_DONE = (400, 403, 404, 409, 413, 429, 503)


class Lease:
    def __init__(self, grant):
        said = grant.said
        self.grant, self.token = grant, said["fencing_token"]
        self.until = grant.sent + (said["waited_ms"] + said["remaining_ms"]) / 1000
        self.released = False

    def use(self, event):
        """A later request under the lease. Returns a sentence if it was refused too early."""
        wrong = None
        if not self.released and event.word in ENDED and event.got < self.until:
            wrong = (f"client {event.client} was refused ({event.word}) {self.until - event.got:.3f} s "
                     f"before the end of its lease of '{event.key}', token {self.token}")
        if event.kind == "release":
            self.until, self.released = min(self.until, event.sent), True
        elif event.kind == "keepalive" and event.status == 200 and not self.released:
            self.until = max(self.until, event.sent + event.said["remaining_ms"] / 1000)
        return wrong


def leases_of(events):
    """The leases by key and id, and sentences about uses that were wrongly refused."""
    leases, wrong = {}, []
    for event in sorted(events, key=lambda event: event.sent):
        name = event.key, event.lease
        if event.kind == "acquire" and event.status == 200:
            name = event.key, event.said["lease_id"]
            if name in leases:
                wrong.append(f"two replies granted lease {name[1]} of '{name[0]}'")
            leases[name] = Lease(event)
        elif event.lease and name in leases:
            wrong.append(leases[name].use(event))
    return leases, [sentence for sentence in wrong if sentence]


def check_grants(leases):
    by_key = collections.defaultdict(list)
    for (key, _), lease in leases.items():
        by_key[key].append(linear.Held(lease.grant.sent, lease.grant.got, lease.until, lease.token))
    found = [(key, linear.check_held(held)) for key, held in by_key.items()]
    return [f"'{key}': {wrong}" for key, wrong in found if wrong]


def call_of(event):
    """A call for linear.py; None if nothing happened, as far as the client was told."""
    if event.kind == "read" and event.status in (200, 204):
        return linear.Call(event.sent, event.got, ("read", 0),
                           (event.said["version"], event.value))
    if event.kind != "update" or event.status in NOT_DONE:
        return None
    asked = ("write", ((0, event.value),))
    if event.status == 200:
        return linear.Call(event.sent, event.got, asked, ((0, event.said["new_version"]),))
    return linear.unknown(event.sent, asked)


def check_states(events):
    histories, wrong = collections.defaultdict(list), []
    for event in events:
        call = call_of(event)
        if call:
            histories[event.key].append(call)
    for key, history in histories.items():
        found = linear.check(linear.narrow(history), linear.keys, linear.keys_start(1))
        if found:
            wrong.append(f"the state of '{key}': {found}")
    return wrong


def check_words(events):
    """Servers may refuse, but not in ways that nobody documented."""
    odd = {f"{event.kind}: {event.status} {event.word}" for event in events
           if event.status not in (None, 200, 204, 409, 503, 504) and
           not (event.lease and event.status == 403)}
    return [f"unexpected reply to {sentence}" for sentence in sorted(odd)]


def judge(events):
    """Sentences about what is wrong; an empty list if nothing is."""
    leases, wrong = leases_of(events)
    return wrong + check_grants(leases) + check_states(events) + check_words(events)


def figures(events):
    """How much the journal says."""
    count = collections.Counter()
    for event in events:
        outcome = "no reply" if event.status is None else str(event.status)
        count[f"{event.kind} {outcome}"] += 1
    return count


# ---- Can it fail? -------------------------------------------------------------------------------


def granted(sent, token, lease, key="k", remaining=2000, waited=0, client=1):
    return Event(client, "acquire", key, sent, sent + 0.1, 200, None, lease=None,
                 said={"lease_id": lease, "fencing_token": token, "waited_ms": waited,
                       "remaining_ms": remaining})


def used(kind, sent, lease, status=200, word=None, value=None, **said):
    return Event(1, kind, "k", sent, sent + 0.1, status, word, said, lease, value)


def read(sent, version, value):
    return Event(2, "read", "k", sent, sent + 0.1, 200, None, {"version": version}, None, value)


# (what is wrong, or None; the journal)
FORGED = [
    (None, [granted(0, 1, "x"), used("update", 0.2, "x", value="v", new_version=1),
            used("keepalive", 1, "x", remaining_ms=2000), used("release", 2.5, "x"),
            granted(2.6, 2, "y"), read(3, 1, "v"), granted(5, 4, "z")]),
    (None, [granted(0, 1, "x"), used("update", 2, "x", 403, "lease_expired", value="v")]),
    (None, [granted(0, 1, "x"), used("update", 0.2, "x", None, value="v"), read(1, 1, "v"),
            used("update", 1.2, "x", None, value="w"), read(1.4, 1, "v")]),
    ("two held it at once", [granted(0, 1, "x"), granted(1, 2, "y")]),
    ("two held it at once", [granted(0, 1, "x"), used("keepalive", 1.5, "x", remaining_ms=2000),
                             granted(2.2, 2, "y")]),
    ("two held it at once", [granted(0, 1, "x", waited=1000), granted(2.2, 2, "y")]),
    ("same token", [granted(0, 7, "x"), granted(5, 7, "y")]),
    ("lower token", [granted(0, 7, "x"), granted(5, 6, "y")]),
    ("two replies granted", [granted(0, 7, "x"), granted(5, 7, "x")]),
    ("was refused", [granted(0, 1, "x"), used("keepalive", 1, "x", 403, "lease_expired")]),
    ("was refused", [granted(0, 1, "x"), used("update", 1, "x", 403, "lease_required", value="v")]),
    ("the state of", [granted(0, 1, "x"), used("update", 0.2, "x", value="v", new_version=1),
                      read(1, 0, None)]),
    ("the state of", [granted(0, 1, "x"), used("update", 0.2, "x", 503, "unavailable", value="v"),
                      read(1, 1, "v")]),
    ("the state of", [used("update", 0.2, "x", value="v", new_version=1),
                      used("update", 0.4, "x", value="w", new_version=2), read(1, 1, "v")]),
    ("unexpected reply", [Event(1, "read", "k", 0, 1, 500, "internal")]),
    ("unexpected reply", [Event(1, "acquire", "k", 0, 1, 403, "lease_expired")]),
]


def blind_spots():
    """Forged journals that are judged wrongly."""
    missed = []
    for number, (expected, events) in enumerate(FORGED):
        found = judge(events)
        if bool(found) != bool(expected) or expected and not any(expected in one for one in found):
            missed.append(f"journal {number}: expected {expected}, found {found}")
    return missed
