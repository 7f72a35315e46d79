/* bucket.h: what a program must know of a bucket before it works in it. It stands in one object,
 * .holdfast/format.json (docs/formats.md), so that one get tells it:
 *
 *   features   what the objects of the bucket use that not every version of Holdfast knows. A
 *              feature that this version does not know means: `compatible`, go on; `read_only`,
 *              reads are right and every write is UNSUPPORTED; `incompatible`, nothing here can be
 *              trusted to mean what it seems to: UNSUPPORTED, and nothing is touched.
 *   verdicts   what the probe (probe.h) has found out about the store, one for each way to it:
 *              whether it keeps the promises that locks are built on, and what it can do.
 *
 * Invariants:
 *
 *   1. Whoever coordinates (locks and all that is built on them) has had a verdict on this very
 *      store first: one that stood in the bucket, or one of its own. A store that lies is
 *      UNSUPPORTED before anything is written, granted or started, and before anything is read.
 *   2. A verdict counts for the store it was made of (store_identify: endpoint, bucket, and whether
 *      it keeps versions) and until it expires, by the store's own clock where that has one. So
 *      documents that came with a copy of the bucket say nothing, and neither do old ones.
 *   3. A refusal is a verdict too, kept for a day, so that the next process needs one get. One that
 *      passed is kept for 30 days. `holdfast store probe` makes a new one at any time.
 *   4. Only what the probe has shown is refused. A probe without an answer is no verdict: the store
 *      is UNAVAILABLE, and nothing is written down.
 *   5. Stores of our own code (mem, dir, sqlite) need no verdict: what they promise is tested where
 *      they are made. One that stands there counts all the same, and so do the features.
 *   6. Who may not write may read: where the verdict is missing and the probe is DENIED, every
 *      write of this handle is DENIED, and reads go on.
 *   7. What stands in the document and is not ours is written back as it stood. The document is
 *      changed only by compare-and-swap; what others wrote meanwhile counts.
 *
 * It is asked once for each store that is opened, at the one door (api/open.c). */
#ifndef STORE_BUCKET_H
#define STORE_BUCKET_H

#include "store/probe.h"

/* What the store is opened for. */
enum bucket_use {
    BUCKET_OBJECTS, /* objects by hand: features count, and a verdict is not needed */
    BUCKET_LOCKS,   /* locks, and all that is built on them */
};

/* Learns what the bucket says, sets the store's traits, and bars writes where only reads are right.
 * UNSUPPORTED, with a sentence: the store or a feature. CORRUPT: the document cannot be read (not
 * for BUCKET_OBJECTS, with which it can be removed). One get; where a verdict is needed and there
 * is none, the probe, and a put to keep it. */
enum hf_status bucket_check(struct store *store, enum bucket_use use, struct hf_error *error);

/* Probes now, whatever stands there, and, with `keep`, writes down what was found, a refusal too.
 */
enum hf_status bucket_probe(struct store *store, bool keep, struct probe_report *ret_report,
                            struct hf_error *error);

#endif
