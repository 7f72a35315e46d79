/* SPDX-License-Identifier: Apache-2.0 */
/* fsck.h: checks that a bucket matches its catalogs, and repairs what can be repaired.
 *
 *     struct hf_fsck_options options = HF_FSCK_OPTIONS;
 *     struct hf_fsck_report report = HF_FSCK_REPORT;
 *     options.finding = print_finding;
 *     hf_compact_fsck(client, NULL, &options, &report, &error);
 *
 * A check reads the catalogs of all partitions, the listing of data/, the lease tables and, unless
 * it is shallow, every byte of every live chunk. */
#ifndef HOLDFAST_FSCK_H
#define HOLDFAST_FSCK_H

#include "holdfast/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HF_FSCK_KIND_TABLE(ROW)                                                               \
    ROW(MISSING_OBJECT, "missing-object", "a live chunk whose object is missing")             \
    ROW(WRONG_SIZE, "wrong-size", "a live chunk whose object has the wrong size")             \
    ROW(WRONG_CHECKSUM, "wrong-checksum", "a live chunk whose bytes have the wrong checksum") \
    ROW(WRONG_ROWS, "wrong-rows", "a live chunk with more or fewer rows than it should have") \
    ROW(UNREADABLE_OBJECT, "unreadable-object", "a live chunk that cannot be read now")       \
    ROW(MISSING_TOMBSTONE, "missing-tombstone", "a tombstone whose object is missing")        \
    ROW(UNREFERENCED, "unreferenced", "an object under data/ that no catalog lists")          \
    ROW(FOREIGN, "foreign", "an object under data/ that is not named like a chunk")           \
    ROW(LINGERING, "lingering", "an object that was deleted but still exists")                \
    ROW(BAD_CATALOG, "bad-catalog", "a catalog that cannot be read")                          \
    ROW(MISSING_CATALOG, "missing-catalog", "a missing catalog that another refers to")       \
    ROW(STRAY_CATALOG, "stray-catalog", "a catalog left over from an abandoned split")        \
    ROW(TWICE, "twice", "a key that is in two catalogs")                                      \
    ROW(WRONG_HOME, "wrong-home", "a key in a catalog that it cannot belong to")              \
    ROW(UNSETTLED_LEASE, "unsettled-lease", "an ended lease whose output is not settled")     \
    ROW(BAD_LEASES, "bad-leases", "a lease table that cannot be read")                        \
    ROW(REWRITTEN, "rewritten", "a live chunk whose adopted object was rewritten")

#define HF_FSCK_KIND_ENUM_(name, word, about) HF_FSCK_##name,
enum hf_fsck_kind { HF_FSCK_KIND_TABLE(HF_FSCK_KIND_ENUM_) HF_FSCK_KIND_COUNT };
#undef HF_FSCK_KIND_ENUM_

/* Returns the name of a kind, such as "missing-object", and its description. */
HF_API const char *hf_fsck_kind_name(enum hf_fsck_kind kind);
HF_API const char *hf_fsck_kind_text(enum hf_fsck_kind kind);

struct hf_fsck_finding {
    size_t struct_size;
    enum hf_fsck_kind kind;
    const char *key; /* of the object or document */
    const char *partition;
    const char *why; /* "": the description of its kind applies */
    bool repaired;
    const char *repair; /* done or possible, as the end of a sentence: "can be deleted" */
};

struct hf_fsck_options {
    size_t struct_size;
    bool repair;
    bool shallow; /* check only names and sizes; do not read the objects */
    /* Objects that are in no catalog are left alone while they are younger than this, because a
     * client may be about to add them; 0: one hour; negative: no minimum age. */
    int64_t age_ms;
    const char *scratch_folder; /* for one object at a time (default: $TMPDIR, or /tmp) */
    /* Optional. Called during the check. Return false to stop; the call then returns HF_OK. */
    bool (*finding)(void *argument, const struct hf_fsck_finding *finding);
    /* Optional. Return false to stop with HF_CANCELLED. */
    bool (*progress)(void *argument, uint64_t chunks_done, uint64_t chunks_total,
                     uint64_t bytes_done);
    void *argument; /* for both callbacks */
};
#define HF_FSCK_OPTIONS                                                                     \
    HF_VALUE_(hf_fsck_options, sizeof(struct hf_fsck_options), false, false, 0, NULL, NULL, \
              NULL, NULL)

struct hf_fsck_report {
    size_t struct_size;
    uint64_t catalogs, chunks, tombstones, deleting, objects, bytes_read, rows;
    uint64_t found, repaired;
    uint64_t young; /* objects in no catalog that are too young to report */
};
#define HF_FSCK_REPORT \
    HF_VALUE_(hf_fsck_report, sizeof(struct hf_fsck_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

/* Checks that a bucket matches its catalogs: all partitions, or `partition` and its children.
 * Without `repair`, the check changes nothing. Repairs use the same transitions as all other
 * operations, and never remove anything that could be data. Other clients may continue to work:
 * each finding is verified a second time before it is reported. `options` and `report` may be NULL;
 * the report is set if the call returns HF_OK.
 *
 * Returns HF_OK if the check was completed, regardless of what it found. Returns HF_NOT_FOUND if
 * the partition does not exist, and HF_CANCELLED if `progress` stopped the check. Returns
 * HF_UNAVAILABLE if the store does not reply, or if there are more than a million names: in that
 * case, check one partition at a time. */
HF_API enum hf_status hf_compact_fsck(struct hf_client *client, const char *partition,
                                      const struct hf_fsck_options *options,
                                      struct hf_fsck_report *report, struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
