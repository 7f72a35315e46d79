/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast.h: leases, locks and compaction on an object store.
 *
 * Holdfast needs no lock server. All shared state is kept in small documents in an object store (a
 * directory, an SQLite file, or a bucket on S3, Google Cloud Storage or Azure). Every change to a
 * document is a compare-and-swap: the client loads the document, computes the new version, and
 * writes it back only if no other client has changed it in the meantime.
 *
 *     struct hf_client *client;
 *     struct hf_lock *lock;
 *     struct hf_error error;
 *     if (hf_client_open("sqlite:jobs.db", NULL, &client, &error) == HF_OK &&
 *         hf_lock_new(client, "deploy", NULL, &lock, &error) == HF_OK &&
 *         hf_lock_acquire(lock, 60000, &error) == HF_OK) {
 *         ... do the work; call hf_lock_check(lock, &error) before each critical step ...
 *         hf_lock_release(lock, &error);
 *     }
 *
 * WHAT A LEASE GUARANTEES. A lock is a lease. It is granted for a limited time (the ttl), and is
 * renewed in the background while the lock is held and the process is running. While hf_lock_check
 * returns HF_OK, no other client of the same store has been granted a conflicting lease, unless a
 * client has ended the lease early: with hf_break, or by deciding the transaction that it belongs
 * to (hf_txn_decide). If the holder dies, hangs or loses the network, the lease expires on its own
 * and another client can take over. No cleanup is needed. Conflicting requests are granted in the
 * order in which they were queued.
 *
 * Holdfast never compares the clocks of two machines. The holder measures its lease on its own
 * boot-time clock, starting just before it sends the request that acquires the lock. A client that
 * wants to take over must prove that the lease has ended. There are two proofs. Either the store's
 * clock is past the end of the lease, allowing for the error of that clock, or the client has
 * watched the lease remain unchanged for longer than the lease can be valid.
 *
 * The guarantee rests on two assumptions. First, the boot-time clocks of any two machines drift
 * apart by less than 200 ppm. Second, the clocks of a store's front ends agree to within half the
 * skew tolerance, which is 2 s on AWS and Azure at their own endpoints, and 30 s elsewhere. If a
 * store cannot meet the second assumption, set takeover_observed, so that takeovers do not use the
 * store's clock.
 *
 * WHAT A LEASE DOES NOT GUARANTEE. You may no longer hold the lock by the time your write arrives.
 * Between a call to hf_lock_check and the effect of the next statement, your process may be paused
 * for longer than the ttl (in a debugger, on a suspended laptop, or in a stopped container), and
 * the lock may be granted to another client. No lock can prevent this. Only the system that
 * receives the write can refuse it. Each grant therefore comes with a TOKEN, a number that
 * increases with every grant of the lock. Protect critical writes with hf_fenced_put, which takes
 * the lock handle and returns HF_FENCED if the token is stale. Alternatively, pass the result of
 * hf_lock_token to a database that compares tokens.
 *
 * AFTER A PAUSE, the first call to hf_lock_check reports whether the lease has ended. It returns
 * HF_EXPIRED if the lease has expired by this machine's clock, which keeps running while the
 * machine is suspended. It returns HF_LOST if another client ended the lease. In both cases, stop
 * the work. Everything you wrote with the token is safe. Release the handle, then acquire the lock
 * again to get a new lease. A lost lease is never revived.
 *
 * CHOOSING A TTL. If a holder dies, other clients wait for up to one ttl. A lease is renewed after
 * a third of its ttl, so the ttl should be three times the longest store outage that the holder
 * must survive.
 *
 *     work                ttl     renewed every   why
 *     short operations     10 s     3 s           quick recovery when a client fails
 *     long operations      60 s    20 s           less traffic, survives a slow minute
 *     batches             300 s   100 s           rarely interrupted
 *
 * Use at least 5 s on network stores, because they report time in whole seconds.
 *
 * SCOPES name what is locked. They are written as text:
 *
 *     deploy, named:deploy   a name: segments of a-z 0-9 . _ - separated by slashes
 *     path:/a/b              one path
 *     tree:/a                a path and everything under it
 *     inode:7                an inode
 *     range:7:0-4096         a byte range of an inode; 0- extends to the end
 *     chunk:data/x.usv       an object to be merged
 *     pin:data/x.usv         an object being read; a pin conflicts with nothing
 *     shard:domains/a3       an index shard to be written; the ttl is at most 5 minutes
 *     snapshot:events:42     a partition being read, as of a generation of its catalog; a snapshot
 *                            conflicts with nothing
 *
 * NO REPLY. If the store does not reply to a write, the client cannot know whether the write
 * happened. The call then returns HF_UNSURE, never a failure, because the store may have granted
 * the lock. The client keeps trying to release the lock in the background until the store confirms
 * the release or the lease has expired.
 *
 * HEADERS. This header includes all others. Each header begins with the guarantees that it makes.
 *
 *     holdfast/adopt.h    objects of others as chunks, where they are
 *     holdfast/base.h     statuses, errors, conventions, the client
 *     holdfast/compact.h  compaction: partitions, workers
 *     holdfast/drop.h     removal of a whole partition
 *     holdfast/elect.h    elections without messages
 *     holdfast/fenced.h   objects that refuse a stale token
 *     holdfast/fsck.h     checks of buckets with partitions
 *     holdfast/index.h    the latest record of each key
 *     holdfast/key.h      keys with state, transactions
 *     holdfast/lock.h     locks
 *     holdfast/merge.h    merging files of records
 *     holdfast/observe.h  lock listings, events, counters
 *     holdfast/reader.h   snapshots of a partition, and its records
 *     holdfast/scrub.h    damaged objects in a store
 *     holdfast/store.h    objects in a store, the probe, the store's clock, restores
 *     holdfast/sweep.h    removal of expired leases and unused tables */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include "holdfast/adopt.h"
#include "holdfast/base.h"
#include "holdfast/compact.h"
#include "holdfast/drop.h"
#include "holdfast/elect.h"
#include "holdfast/fenced.h"
#include "holdfast/fsck.h"
#include "holdfast/index.h"
#include "holdfast/key.h"
#include "holdfast/lock.h"
#include "holdfast/merge.h"
#include "holdfast/observe.h"
#include "holdfast/reader.h"
#include "holdfast/scrub.h"
#include "holdfast/store.h"
#include "holdfast/sweep.h"

#endif
