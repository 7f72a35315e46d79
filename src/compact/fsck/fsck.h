/* SPDX-License-Identifier: Apache-2.0 */
/* fsck.h: checks whether a bucket matches its catalogs, and repairs what can be repaired. It reads
 * the catalogs of all partitions, the listing of data/ and, unless `shallow` is set, every byte of
 * every live chunk. Without `repair` it changes nothing.
 *
 * Repairs use the same transitions as everything else: an object that no catalog names is
 * condemned before it is deleted, and a live chunk whose object is missing or damaged is
 * quarantined. Nothing that could be data is ever removed. */
#ifndef COMPACT_FSCK_FSCK_H
#define COMPACT_FSCK_FSCK_H

#include "compact/catalog/catalog_tree.h"

/* The strings are valid only during the call of `tell`. */
struct fsck_finding {
    enum hf_fsck_kind kind;
    struct view key; /* of the object or document */
    struct view partition;
    const char *why;
    bool repaired;
    const char *repair; /* what was or can be done, to end a sentence: "can be deleted" */
};

struct fsck_options {
    bool repair;
    bool shallow; /* check names and sizes only, do not read the objects */
    /* Unreferenced objects that are younger than this are ignored, because a client may be about to
     * add them; zero: one hour. */
    struct span age;
    const char *scratch; /* a folder for one object at a time; NULL: /tmp */
    void (*tell)(void *argument, const struct fsck_finding *finding);
    bool (*go_on)(void *argument, uint64_t chunks_done, uint64_t chunks_total,
                  uint64_t bytes_done);
    void *argument;
};

/* All known keys are kept in memory, about 150 bytes each. A larger bucket is refused
 * (UNAVAILABLE): check its partitions one by one. */
#define FSCK_NAMES_MAX    1000000
#define FSCK_CATALOGS_MAX 65536

/* Checks one partition with its children, or the whole bucket if the name is empty. OK: the check
 * is complete, regardless of its findings. NOT_FOUND: the partition has no catalog. CANCELLED:
 * go_on returned false. Clients may use the bucket in the meantime, because each finding is checked
 * again before it is reported. */
enum hf_status fsck_run(struct store *store, struct hf_client *client, struct view partition,
                        const struct fsck_options *options, struct hf_fsck_report *ret_report,
                        struct hf_error *error);

#endif
