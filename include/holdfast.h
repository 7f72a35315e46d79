/* holdfast.h: leases, locks and compaction for anything that lives in a bucket.
 *
 * Holdfast needs no lock server. Everything that must be agreed on is a small document in an
 * object store (a directory, an SQLite file, S3), and every change to it is a compare-and-swap:
 * load it, compute the new one, write it back only if nobody else did meanwhile.
 *
 *     struct hf_client *client;
 *     struct hf_lock *lock;
 *     struct hf_error error;
 *     if (hf_client_open("sqlite:jobs.db", NULL, &client, &error) == HF_OK &&
 *         hf_lock_new(client, "deploy", NULL, &lock, &error) == HF_OK &&
 *         hf_lock_acquire(lock, 60000, &error) == HF_OK) {
 *         ... the work, with hf_lock_check(lock, &error) before each step that matters ...
 *         hf_lock_release(lock, &error);
 *     }
 *
 * WHAT A LEASE PROMISES. A lock here is a lease: it is granted for a time (the ttl) and renewed
 * in the background for as long as the handle is held and the process runs. While hf_lock_check
 * says OK, no other client of the same store was granted a conflicting lease. When the holder
 * dies, stops or is cut off, the lease ends by itself and somebody else goes on: nobody has to
 * clean up. Among conflicting requests that wait, order is kept.
 *
 * No clock of one machine is compared with that of another. The holder counts its time on its
 * own boot-time clock, from before the request that got the lease was sent. Somebody who wants
 * to take over must prove that this time is over: by the store's clock, with all that it may be
 * wrong by, or by having watched the lease stand unchanged for longer than it can be valid. The
 * promise needs this much of the world: boot-time clocks of two machines that drift apart by
 * less than 200 ppm, and front ends of a store whose clocks agree within half the skew
 * tolerance (2 s on AWS, 30 s elsewhere; where that is too much to ask, takeover_observed does
 * without the store's clock).
 *
 * WHAT IT DOES NOT PROMISE. That you still hold it when your write arrives. Between
 * hf_lock_check and the effect of the next line your process may be paused (a debugger, a
 * suspended laptop, a stopped container) for longer than the ttl, and somebody else may have
 * been granted the lock. No lock of any kind can prevent that; only the place where the write
 * arrives can refuse it. So each grant has a TOKEN, which rises with every grant of that lock,
 * for ever. Write what must not go back with hf_fenced_put, which takes the lock itself and
 * refuses a stale token (FENCED), or give hf_lock_token to a database that compares it.
 *
 * AFTER A PAUSE the first call tells: hf_lock_check answers EXPIRED (the time is over by our
 * own clock, which counts through suspend) or LOST (somebody ended it). Stop the work; what was
 * written with the token is safe; release the handle, then acquire again for a new one. A lost
 * lease is never revived.
 *
 * CHOOSING A TTL. It is how long the others wait after the holder died, and three times the
 * longest silence of the store that the holder survives, since it is renewed at a third.
 *
 *     work                      ttl      renewed every   why
 *     short operations          10 s      3 s            quick recovery when a client fails
 *     long operations           60 s     20 s            less traffic, survives a slow minute
 *     batches                  300 s    100 s            is hardly ever interrupted
 *
 * On stores on the network, which tell their time in whole seconds, take 5 s at least.
 *
 * SCOPES say what is locked, as text:
 *
 *     deploy, named:deploy      a name: a-z 0-9 . _ - in segments between slashes
 *     path:/a/b                 one path; tree:/a is a path and all under it
 *     inode:7                   an inode; range:7:0-4096 some of its bytes, 0- to the end
 *     chunk:data/x.usv          an object that is to be merged
 *     pin:data/x.usv            an object that is being read: stands in nobody's way
 *     shard:domains/a3          a shard of an index, to be written; for 5 minutes at a time
 *
 * NO ANSWER. When a store does not answer, nobody knows whether a write happened. Such a call
 * says UNSURE, never "failed": the lock may be ours in the store's eyes. The client goes on
 * giving it back in the background until that is settled or the lease is over.
 *
 * HEADERS. This one includes all others; each opens with what it promises.
 *
 *     holdfast/base.h     statuses, errors, conventions, the client
 *     holdfast/compact.h  many small objects into few: partitions, workers, readers
 *     holdfast/elect.h    who of a group does a piece of work first
 *     holdfast/fenced.h   objects that refuse a stale token
 *     holdfast/index.h    the latest record of each key
 *     holdfast/key.h      keys with state, transactions
 *     holdfast/lock.h     locks
 *     holdfast/merge.h    many files of records into one
 *     holdfast/observe.h  who holds what, events, counters
 *     holdfast/store.h    objects of a store by hand; the probe, the store's clock, restores
 *     holdfast/sweep.h    what nobody touches any more is cleared away */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include "holdfast/base.h"
#include "holdfast/compact.h"
#include "holdfast/elect.h"
#include "holdfast/fenced.h"
#include "holdfast/index.h"
#include "holdfast/key.h"
#include "holdfast/lock.h"
#include "holdfast/merge.h"
#include "holdfast/observe.h"
#include "holdfast/store.h"
#include "holdfast/sweep.h"

#endif
