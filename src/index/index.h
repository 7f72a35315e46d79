/* SPDX-License-Identifier: Apache-2.0 */
/* index.h: an index handle: create, extend, open; put records into the inbox. A handle may be used
 * by only one task at a time. See docs/design.md section 8; README.md contains the rules. */
#ifndef INDEX_INDEX_H
#define INDEX_INDEX_H

#include "base/layout.h"
#include "index/name.h"
#include "lock/client.h"

struct shard_cache;

struct index {
    struct env *env;
    struct store *store;
    struct hf_client *client; /* NULL if the handle is not used to compile */
    char name[INDEX_NAME_MAX + 1];
    struct schema schema;
    struct etag etag;          /* of index.json, as it was read */
    struct mono_time checked;  /* when it was read, or found to be unchanged */
    struct shard_cache *cache; /* shared by the copies of the handle (shard_cache.h) */
};

/* A handle writes for this long without reading index.json again, which may say that the index is
 * being dropped. */
#define INDEX_TRUST SPAN_S(60)

/* Reads index.json again before a write if that is due. NOT_FOUND: the index is being dropped. */
enum hf_status index_check_mark(struct index *index, struct hf_error *error);

/* Opens a handle for dropping the index only (see drop.h). INVALID: not a valid name. */
enum hf_status index_open_to_drop(struct hf_client *client, struct view name,
                                  struct index **ret_index, struct hf_error *error);

/* The mark in index.json that the index is being dropped. */
struct drop_mark {
    bool marked;
    struct span wait;    /* until what was on its way must have arrived; 0: it has */
    struct etag etag;    /* of index.json with the mark; empty for MARK_LOOK */
    bool stamped;        /* by this call, ... */
    struct mono_time at; /* ... not before this time */
};

enum marking {
    MARK_LOOK,    /* only tell what the mark would be */
    MARK_DROPPED, /* mark it, unless it is marked */
    MARK_AGAIN, /* the wait begins again, because something is about to be deleted by its name */
    MARK_EMPTIED, /* nothing is left, and nothing can arrive; the mark must have no wait */
};

/* NOT_FOUND: there is no such index. CONFLICT, for MARK_AGAIN and MARK_EMPTIED: it is not being
 * dropped any more; another client has created it anew. */
enum hf_status index_mark(struct index *index, enum marking how, struct drop_mark *ret_mark,
                          struct hf_error *error);

/* Whether index.json still is this version, with the mark. CONFLICT: it is not. */
enum hf_status index_check_marked(struct index *index, const struct drop_mark *mark,
                                  struct hf_error *error);

enum index_made {
    INDEX_CREATED,
    INDEX_EXTENDED,  /* it existed, and was given new fields */
    INDEX_UNCHANGED, /* it existed with exactly this schema */
};

/* Creates the index, or extends the existing one. INVALID: the existing index differs; the error
 * says how. CONFLICT: it is being dropped. `client` may be NULL. */
enum hf_status index_create(struct store *store, struct hf_client *client, struct view name,
                            const struct schema *schema, enum index_made *ret_made,
                            struct hf_error *error);

/* NOT_FOUND: the index does not exist. INVALID: not a valid name. The caller still owns `store` and
 * `client`. */
enum hf_status index_open(struct store *store, struct hf_client *client, struct view name,
                          struct index **ret_index, struct hf_error *error);
void index_close(struct index *index);

/* index_copy makes a separate handle for another task, without a request; NULL if out of memory.
 * index_learn copies the new fields that such a handle has read. This is possible because fields
 * are only appended to a schema. */
struct index *index_copy(const struct index *index);
void index_learn(struct index *index, const struct index *copy);

/* Reads index.json again if it has changed. */
enum hf_status index_refresh(struct index *index, struct hf_error *error);

/* The key of an object of the index: "index.json", "shards/a3.usv". False if it is too long. */
bool index_key(const struct index *index, char ret_key[KEY_BYTES_MAX + 1], const char *format,
               ...) __attribute__((format(printf, 3, 4)));

/* Changes a document of the index, for a caller that does not cache the document. */
enum hf_status index_change(struct index *index, const char *name, const struct doc_type *type,
                            struct doc_op *op, struct hf_error *error);

/* Whether an object exists, after a put with *absent* was refused. UNSURE: the store does not
 * answer. */
enum hf_status index_has(struct index *index, struct view object, bool *ret_there,
                         struct hf_error *error);

/* Writes a record with these values, one per field of the schema. data NULL: the field is omitted
 * or, if it is the time, set to the current time. False if out of memory. */
bool index_write_record(const struct index *index, struct view *values, struct buffer *bytes);

/* Puts at most BATCH_MAX records into the inbox, one entry each. All records are checked against
 * the schema first. INVALID: nothing was put, and *ret_bad is the first bad record. OK: all are
 * stored and durable, and every reader sees them. UNSURE: some may be stored or may still arrive;
 * putting them again is harmless. An unanswered put is retried a few times under its name. */
enum hf_status index_put(struct index *index, const struct view *records, size_t count,
                         size_t *ret_bad, struct hf_error *error);

/* Deletes at most BATCH_MAX keys as of this time (data NULL: the current time): puts a deletion of
 * each into the inbox, like index_put. A record with a later time stays, or comes back with it. If
 * the index has no deletions yet, index.json is changed first. */
enum hf_status index_delete(struct index *index, const struct view *keys, size_t count,
                            struct view time, size_t *ret_bad, struct hf_error *error);

#endif
