/* SPDX-License-Identifier: Apache-2.0 */
/* scrub.h: reads a whole store, and finds objects whose bytes have changed.
 *
 *     struct hf_store_scrub_options options = HF_STORE_SCRUB_OPTIONS;
 *     struct hf_store_scrub_report report = HF_STORE_SCRUB_REPORT;
 *     options.rate_max = 10 * 1024 * 1024;
 *     options.finding = print_finding;
 *     hf_store_scrub(store, &options, &report, &error);
 *
 * Disks and stores lose bytes silently, and nobody notices before the object is used. A scrub reads
 * every document of Holdfast, and the objects that they refer to, and compares the checksums. It
 * changes nothing. hf_compact_fsck compares the objects with the catalogs, which a scrub does not
 * do. */
#ifndef HOLDFAST_SCRUB_H
#define HOLDFAST_SCRUB_H

#include "holdfast/base.h"
#include "holdfast/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What was found. Each row: constant, name, description. */
#define HF_SCRUB_KIND_TABLE(ROW)                                                             \
    ROW(DAMAGED, "damaged", "its bytes are not those that were written")                     \
    ROW(MISSING, "missing", "a document refers to it, but it does not exist")                \
    ROW(UNREADABLE, "unreadable", "the store could not read it")                             \
    ROW(TOO_NEW, "too-new", "a later version of Holdfast wrote it")                          \
    ROW(UNSEALED, "unsealed", "it has no checksum, although every document should have one") \
    ROW(UNKNOWN, "unknown", "it is in a folder of Holdfast, but not a known object")

#define HF_SCRUB_KIND_ENUM_(name, word, about) HF_SCRUB_##name,
enum hf_scrub_kind { HF_SCRUB_KIND_TABLE(HF_SCRUB_KIND_ENUM_) HF_SCRUB_KIND_COUNT };
#undef HF_SCRUB_KIND_ENUM_

/* Returns the name of a kind, such as "damaged", and its description. */
HF_API const char *hf_scrub_kind_name(enum hf_scrub_kind kind);
HF_API const char *hf_scrub_kind_text(enum hf_scrub_kind kind);

/* Strings are valid only during the call. */
struct hf_scrub_finding {
    size_t struct_size;
    enum hf_scrub_kind kind;
    const char *key;
    size_t key_size;
    const char *why; /* "": the description of its kind applies */
};

/* Where a scrub continues: a key or, within a catalog, the key of the catalog, '#' and the key of a
 * chunk. */
#define HF_SCRUB_POSITION_MAX (2 * HF_KEY_BYTES_MAX + 2)

struct hf_store_scrub_report {
    size_t struct_size;
    uint64_t objects;   /* objects read, with the documents */
    uint64_t documents; /* documents of Holdfast */
    uint64_t
        unsealed; /* of these, documents without a checksum: an earlier version wrote them */
    uint64_t checked; /* objects and documents whose checksum was compared */
    uint64_t skipped; /* objects that were not read, because they are too large for bytes_max */
    uint64_t bytes_read;
    uint64_t damaged, missing, unreadable, too_new, unknown; /* findings */
    bool complete; /* the end of the store was reached */
    /* The last object that was read: `after` of the scrub that continues. Empty if there is none,
     * or if the scrub is complete. */
    char position[HF_SCRUB_POSITION_MAX];
    size_t position_size;
};
#define HF_STORE_SCRUB_REPORT                                                                \
    HF_VALUE_(hf_store_scrub_report, sizeof(struct hf_store_scrub_report), 0, 0, 0, 0, 0, 0, \
              0, 0, 0, 0, 0, false, { 0 }, 0)

struct hf_store_scrub_options {
    size_t struct_size;
    const char *prefix; /* only objects whose keys start with this; NULL: all */
    size_t prefix_size; /* 0: NUL-terminated */
    const char *after;  /* only objects after this one: a position; NULL: all */
    size_t after_size;  /* 0: NUL-terminated */
    bool documents;     /* read only documents, and no objects that contain data */
    uint64_t rate_max;  /* bytes per second; an object counts as 4 KiB or more; 0: no limit */
    /* Stop once this many bytes have been read; larger objects are skipped. 0: no limit. */
    uint64_t bytes_max;
    /* Optional. Return false to stop; the call then returns HF_OK. */
    bool (*finding)(void *argument, const struct hf_scrub_finding *finding);
    /* Optional. Called several times a second. Return false to stop with HF_CANCELLED. */
    bool (*progress)(void *argument, const struct hf_store_scrub_report *so_far);
    void *argument; /* for both callbacks */
    /* Continue where the last scrub with this option has ended, in any process, and note in the
     * store where this one ends. After the end of the store, the next one begins anew. Of two such
     * scrubs at the same time, the one that ends first writes the note. If the note cannot be read
     * or written, the scrub is made nevertheless, the call returns that failure, and the next one
     * with this hf_store continues there. HF_INVALID with `prefix`, `after` or `documents`. */
    bool remember;
};
#define HF_STORE_SCRUB_OPTIONS                                                                 \
    HF_VALUE_(hf_store_scrub_options, sizeof(struct hf_store_scrub_options), NULL, 0, NULL, 0, \
              false, 0, 0, NULL, NULL, NULL, false)

/* Reads the objects of a store in the order of their keys, and reports those that are damaged,
 * missing, too new or unknown. It changes nothing (with `remember`, only the note of its position),
 * and needs a few megabytes of memory, or some tens of them for the largest catalogs. Other clients
 * may continue to work: each finding is verified by a second read before it is reported. Chunks are
 * read when the scrub reaches their catalog, and states and bodies when it reaches the document
 * that refers to them. Other objects are read as well, to find those that cannot be read, unless
 * `documents` is set. Entries of an index's inbox are not read, nor are damaged documents that were
 * set aside under .holdfast/kept/.
 *
 * Returns HF_OK if the scrub has reached its end or bytes_max, regardless of what it found, and
 * HF_CANCELLED if `progress` stopped it. Returns HF_UNAVAILABLE or HF_DENIED if the store fails
 * again and again, and the failure of the note of `remember`, if there was no other. `options` and
 * `ret_report` may be NULL. The report is set regardless of the status. */
HF_API enum hf_status hf_store_scrub(struct hf_store *store,
                                     const struct hf_store_scrub_options *options,
                                     struct hf_store_scrub_report *ret_report,
                                     struct hf_error *error);

/* ---- Upgrades ------------------------------------------------------------------------ */

struct hf_store_upgrade_options {
    size_t struct_size;
    bool dry_run; /* change nothing; report what would be done */
    bool undo;    /* remove the feature `checksums` */
    /* Optional. A document that gets a checksum, or would get one. Return false to stop with
     * HF_CANCELLED. */
    bool (*each)(void *argument, const char *key, size_t key_size);
    /* Optional. Called several times a second. Return false to stop with HF_CANCELLED. */
    bool (*progress)(void *argument, const struct hf_store_scrub_report *so_far);
    void *argument;
};
#define HF_STORE_UPGRADE_OPTIONS                                                               \
    HF_VALUE_(hf_store_upgrade_options, sizeof(struct hf_store_upgrade_options), false, false, \
              NULL, NULL, NULL)

struct hf_store_upgrade_report {
    size_t struct_size;
    bool was_on;        /* the store had the feature `checksums` before the call */
    bool is_on;         /* it has the feature now or, with dry_run, would have it */
    uint64_t documents; /* documents read */
    uint64_t sealed;    /* documents that got a checksum, or would get one */
    uint64_t left; /* documents that could not get one: damaged, too new, very old, or in use */
};
#define HF_STORE_UPGRADE_REPORT                                                              \
    HF_VALUE_(hf_store_upgrade_report, sizeof(struct hf_store_upgrade_report), false, false, \
              0, 0, 0)

/* Records that every document of the store has a checksum (the feature `checksums`), and adds a
 * checksum to the documents that have none, by conditional writes that change nothing else. From
 * then on, versions of Holdfast that do not know the feature can read the store, but not write to
 * it, and a scrub reports documents without a checksum. Documents without a checksum are still
 * used, because a process of such a version may have been started before.
 *
 * Other clients may continue to work. If the call fails or is stopped, call it again: it continues.
 * With `undo`, the feature is removed, and such versions can write again; checksums stay. `options`
 * and `ret_report` may be NULL. The report is set regardless of the status. */
HF_API enum hf_status hf_store_upgrade(struct hf_store *store,
                                       const struct hf_store_upgrade_options *options,
                                       struct hf_store_upgrade_report *ret_report,
                                       struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
