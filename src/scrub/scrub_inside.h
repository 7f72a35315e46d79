/* SPDX-License-Identifier: Apache-2.0 */
/* scrub_inside.h: what the files of this folder share: a scrub in progress, and what it finds. */
#ifndef SCRUB_SCRUB_INSIDE_H
#define SCRUB_SCRUB_INSIDE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/layout.h"
#include "lease/scope.h"
#include "scrub/scrub.h"

/* Objects are read in pieces of this size. Documents are read whole, and most are small. The
 * longest is the sidecar of a plain shard with very many deletions. */
#define SCRUB_PIECE ((size_t)1024 * 1024)

struct scrub {
    struct env *env;
    struct store *store;
    const struct scrub_options *options;
    struct hf_store_scrub_report *report;
    struct mono_time paid_until; /* --rate: no request is sent before this time */
    bool told_to_stop;           /* `tell` returned false */
    bool has_passed;             /* an object or a chunk, so there is progress */
    unsigned failures_in_row;    /* requests that the store did not answer, or denied */
    struct buffer text;          /* the document that is being examined */
    /* What is known of the namespace and the index of the last keys. */
    char ns[NAME_BYTES_MAX + 1];
    bool ns_is_used; /* it has an epoch */
    char index[INDEX_NAME_MAX + 1];
    bool index_is_known, index_is_plain, index_is_foreign;
    char compared[KEY_BYTES_MAX + 1]; /* the plain shard that was read with its sidecar */
};

/* What an examination found. `version` identifies the document that was read, so that a finding
 * counts only if a second examination of the same version has the same result. */
struct fault {
    bool found;
    enum hf_scrub_kind kind;
    char key[KEY_BYTES_MAX + 1]; /* of the object, if it is not the one that was examined */
    char why[HF_WHY_MAX];
    struct etag version;
    bool unsealed; /* nothing is wrong with it, but it has no checksum; `scrub->text` has it */
    bool busy;     /* the object was replaced while it was being read: examine it again */
};

/* ---- Reading (read.c) ---------------------------------------------------------------- */

/* Waits as the rate demands after so many bytes. CANCELLED if the caller stops the scrub. */
enum hf_status scrub_pay(struct scrub *scrub, uint64_t bytes, struct hf_error *error);

/* Reads the start of an object into `scrub->text`, at most `max` bytes (at most
 * SCRUB_TEXT_MAX). */
#define SCRUB_TEXT_MAX ((size_t)160 * 1024 * 1024)
enum hf_status scrub_get(struct scrub *scrub, struct view key, size_t max,
                         struct object_info *ret_info, struct hf_error *error);

/* Passes the bytes of an object to `take`, piece by piece, from the request's offset to the end.
 * CONFLICT: the object was replaced meanwhile. */
typedef void scrub_take(void *argument, struct view piece);
enum hf_status scrub_read(struct scrub *scrub, const struct get_call *request, scrub_take *take,
                          void *argument, struct object_info *ret_info, struct hf_error *error);

/* A page of the keys after this one; `continuation` is that of the page before, or 0. Release it if
 * the status is OK. */
enum hf_status scrub_list(struct scrub *scrub, struct view after, uint64_t continuation,
                          struct list_call *page, struct hf_error *error);

/* Turns the status of a read into a fault. Returns OK, or the status that ends the scrub. */
enum hf_status scrub_note_read(struct scrub *scrub, enum hf_status status,
                               const struct hf_error *why, struct fault *fault,
                               struct hf_error *error);

/* Whether an object of this size is to be left out; counts it. */
bool scrub_skips(struct scrub *scrub, uint64_t size);

/* ---- Documents (documents.c) --------------------------------------------------------- */

/* The kinds of objects, by their keys. */
enum scrub_class {
    CLASS_SKIPPED, /* read with the document that refers to it, or not at all */
    CLASS_DATA,    /* has no checksum that is known here */
    CLASS_OBJECT,  /* a fence, or an object that is not Holdfast's */
    CLASS_UNKNOWN,
    CLASS_BUCKET,
    CLASS_EPOCH,
    CLASS_TABLE,
    CLASS_TXN,
    CLASS_CATALOG,
    CLASS_ADOPTED,
    CLASS_INDEX,
    CLASS_MANIFEST,
    CLASS_SHARD,
    CLASS_SIDECAR,
    CLASS_JOBS,
    CLASS_SWEEP,
    CLASS_SIGHT,
    CLASS_SERVE,
    CLASSES,
};
enum scrub_class scrub_classify(struct view key);

/* Reads and checks a document, and what it refers to except the chunks of a catalog. Returns OK,
 * regardless of what it found, or the status that ends the scrub. */
enum hf_status scrub_examine(struct scrub *scrub, enum scrub_class class, struct view key,
                             struct fault *fault, struct hf_error *error);

/* Counts a document, or the line of a fence, that has a checksum, and notes whether one is
 * missing. */
void scrub_count_checksum(struct scrub *scrub, struct view text, struct fault *fault);

void fault_set(struct fault *fault, enum hf_scrub_kind kind, const char *why);

/* ---- Data (data.c) ------------------------------------------------------------------- */

enum hf_status scrub_data(struct scrub *scrub, struct view key, struct fault *fault,
                          struct hf_error *error);

/* Examines the rest of a fenced object, or of an object that is not one; the start of it is
 * `scrub->text`. */
enum hf_status scrub_fenced(struct scrub *scrub, struct view key,
                            const struct object_info *info, struct fault *fault,
                            struct hf_error *error);

/* The bodies that the state of a key refers to, if there are any. */
enum hf_status scrub_states(struct scrub *scrub, struct view table_key, struct view state,
                            struct fault *fault, struct hf_error *error);

enum hf_status scrub_shard(struct scrub *scrub, struct view key, struct fault *fault,
                           struct hf_error *error);

/* The plain shard of the sidecar in `scrub->text`. */
enum hf_status scrub_sidecar(struct scrub *scrub, struct view key, struct fault *fault,
                             struct hf_error *error);

/* A live chunk of the catalog with this key; `chunk` must stay valid. */
struct chunk;
enum hf_status scrub_chunk(struct scrub *scrub, const struct chunk *chunk, struct fault *fault,
                           struct hf_error *error);

#endif
