/* fsck.h: whether a bucket is what its catalogs say, and what can be put right.
 *
 * Looks through the catalogs of all partitions, the listing of data/, and, unless told not to,
 * every byte of every live chunk. Without `repair` it changes nothing. Repairing goes through
 * the same transitions as everything else: an object that no catalog names is condemned, not
 * deleted behind its back; a live chunk whose object is missing or damaged is quarantined;
 * nothing that could be data is ever removed. */
#ifndef COMPACT_FSCK_H
#define COMPACT_FSCK_H

#include "compact/shelf.h"

#define FSCK_KIND_TABLE(ROW) HF_FSCK_KIND_TABLE(ROW)

#define FSCK_KIND_ENUM_(name, word, about) FSCK_##name,
enum fsck_kind { FSCK_KIND_TABLE(FSCK_KIND_ENUM_) FSCK_KIND_COUNT };
#undef FSCK_KIND_ENUM_
const char *fsck_kind_name(enum fsck_kind kind);
const char *fsck_kind_about(enum fsck_kind kind);

/* Its texts live for the call of `tell` only. */
struct fsck_finding {
    enum fsck_kind kind;
    struct view key; /* of the object, or of the document */
    struct view partition;
    const char *why;
    bool repaired;
    const char *repair; /* what was done, or what can be, to end a sentence: "can be deleted" */
};

struct fsck_options {
    bool repair;
    bool shallow; /* do not read the objects: names and sizes only */
    /* Unreferenced objects that are younger are left: somebody may be about to add them; zero: an
     * hour. */
    struct span age;
    const char *scratch; /* a folder for one object at a time; NULL: /tmp */
    void (*tell)(void *argument, const struct fsck_finding *finding);
    bool (*go_on)(void *argument, uint64_t chunks_done, uint64_t chunks_total,
                  uint64_t bytes_done);
    void *argument;
};

struct fsck_report {
    uint64_t catalogs, chunks, tombstones, deleting, objects, bytes_read;
    uint64_t rows;
    uint64_t findings[FSCK_KIND_COUNT];
    uint64_t found, repaired;
    uint64_t young; /* unreferenced objects that are too young to be told */
};

/* All that the catalogs know is held at once, some 150 bytes a key. A larger bucket is refused
 * (UNAVAILABLE): look through its partitions one by one. */
#define FSCK_NAMES_MAX    1000000
#define FSCK_CATALOGS_MAX 65536

/* One partition with its children, or with an empty name all of the bucket. OK when it came to
 * its end, whatever it found; NOT_FOUND when the partition that was named has no catalog;
 * CANCELLED when go_on said so; else why the store cannot. Others may work meanwhile: what is
 * told was looked at again, and was still so. */
enum hf_status fsck_run(struct store *store, struct hf_client *client, struct view partition,
                        const struct fsck_options *options, struct fsck_report *ret_report,
                        struct hf_error *error);

#endif
