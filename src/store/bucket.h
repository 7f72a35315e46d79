/* SPDX-License-Identifier: Apache-2.0 */
/* bucket.h: the facts about a bucket that a program must know before it uses the bucket. They are
 * in one object, .holdfast/format.json (docs/formats.md), and one get reads them:
 *
 *   features   additions to the formats of this bucket that not every version of Holdfast knows.
 *              If this version does not know a feature, the list that names the feature decides.
 *              `compatible`: continue. `read_only`: reads are safe, and every write is
 *              UNSUPPORTED. `incompatible`: the objects may not mean what they seem to mean, so
 *              every call is UNSUPPORTED and nothing is changed.
 *   placements for each namespace whose locks on paths are in pages, their number
 *              (lock/placement.h). This file only keeps what the layer above has recorded.
 *   verdicts   the results of the probe (probe.h), one for each way to reach the store: whether
 *              the store keeps the promises that locks are built on, and what it can do.
 *
 * Invariants:
 *
 *   1. A client that coordinates (locks and everything built on them) first needs a verdict on this
 *      very store, either from the bucket or from its own probe. A store that breaks its promises
 *      is UNSUPPORTED before anything is written, granted or started, and before anything is read.
 *   2. A verdict counts only for the store that was probed (store_identify: endpoint, bucket, and
 *      whether it keeps versions), and only until it expires, by the store's own clock if it has
 *      one. So a verdict that was copied with a bucket does not count, and neither does an old one.
 *      The document may be older than the versions of the bucket. So a client that relies on a
 *      verdict on a bucket without versions asks for the bucket's settings, if that is permitted.
 *      If versions are switched on later, the first write shows it: it is UNSURE if it has a
 *      condition, which the store may have ignored, and the client does nothing more.
 *   3. A refusal is a verdict too. It is kept for a day, and the next process needs only one get.
 *      A verdict that passed is kept for 30 days. `holdfast store probe` creates a new one.
 *   4. A store is refused only for a fault that the probe has shown. A probe without a reply yields
 *      no verdict: the store is UNAVAILABLE, and nothing is recorded.
 *   5. Our own stores (mem, dir, sqlite) need no verdict: the test suite proves their promises.
 *      If there is a verdict, it counts anyway, and so do the features.
 *   6. A client without write permission may read: if the verdict is missing and the probe is
 *      DENIED, every write through this handle is DENIED, and reads still work.
 *   7. Of many clients that open a new bucket at the same time, one probes it (probe_turn.h). The
 *      others wait for its verdict, but not for long, because it may have died.
 *   8. Members of the document that this version does not know are written back unchanged. The
 *      document is changed only by compare-and-swap, so a concurrent change is never lost.
 *   9. After a switch of a feature is reported as done, no earlier switch takes effect.
 *
 * api/open.c calls bucket_check once for each store that it opens. */
#ifndef STORE_BUCKET_H
#define STORE_BUCKET_H

#include "store/probe.h"

/* The purpose for which the store is opened. */
enum bucket_use {
    BUCKET_OBJECTS, /* single objects: features count, and no verdict is needed */
    BUCKET_LOCKS,   /* locks, and everything that is built on them */
};

/* Reads the format document of the bucket, sets the store's traits, and blocks writes if only reads
 * are safe. UNSUPPORTED: the store, or a feature of the bucket, cannot be used; the error says
 * which. CORRUPT: the document cannot be read (BUCKET_OBJECTS continues anyway, so that you can
 * remove it). This takes one get, and with BUCKET_LOCKS on S3 a request for the bucket's settings,
 * unless they are known to be versioned. If a verdict is needed and missing, it also takes a turn
 * (probe_turn.h), the probe, and a put that saves the verdict. */
enum hf_status bucket_check(struct store *store, enum bucket_use use, struct hf_error *error);

/* Whether the text is a format document that this version knows: CORRUPT, UNSUPPORTED. Pure. */
enum hf_status bucket_check_text(struct view text, struct hf_error *error);

/* Probes now, even if there is a verdict. With `keep`, the verdict is written to the bucket, even
 * if it is a refusal. */
enum hf_status bucket_probe(struct store *store, bool keep, struct probe_report *ret_report,
                            struct hf_error *error);

/* Additions to the formats that objects of the bucket may use. */
enum bucket_feature {
    BUCKET_ADOPTED_OBJECTS, /* catalogs with chunks whose objects others wrote */
    BUCKET_PATH_PAGES,      /* namespaces whose locks on paths are in several tables */
    BUCKET_CHECKSUMS,       /* every document that can have a checksum has one */
    BUCKET_FEATURES,
};

/* Records that the bucket uses this feature, before anything uses it: from then on, a version that
 * does not know the feature refuses the bucket. Takes one get, and one put the first time. */
enum hf_status bucket_use_feature(struct store *store, enum bucket_feature feature,
                                  struct hf_error *error);

/* Switches a feature that no object depends on. Takes one get and one put, even if the feature is
 * already as it should be: an earlier switch that got no reply may still be on its way, and only a
 * later write ensures that it fails. */
enum hf_status bucket_switch_feature(struct store *store, enum bucket_feature feature, bool on,
                                     struct hf_error *error);

/* Whether the bucket uses the feature. Takes one get. */
enum hf_status bucket_has_feature(struct store *store, enum bucket_feature feature,
                                  bool *ret_used, struct hf_error *error);

/* Like bucket_check with BUCKET_LOCKS, and appends the member `placements` of the document to
 * `placements`: a JSON object, or nothing. */
enum hf_status bucket_check_placed(struct store *store, struct buffer *placements,
                                   struct hf_error *error);

/* Appends only that member. Takes one get. */
enum hf_status bucket_read_placements(struct store *store, struct buffer *placements,
                                      struct hf_error *error);

/* Records the placement of a namespace, a JSON value, and the feature BUCKET_PATH_PAGES. MISMATCH
 * if another placement is recorded, because a placement never changes. UNAVAILABLE if the document
 * has no room. */
enum hf_status bucket_record_placement(struct store *store, struct view ns,
                                       struct view placement, struct hf_error *error);

#endif
