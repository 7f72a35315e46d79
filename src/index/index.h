/* index.h: an index as a handle: created, extended, opened; records put into its inbox.
 *
 * A handle is used by one task at a time. docs/design.md section 8; README.md has the rules. */
#ifndef INDEX_INDEX_H
#define INDEX_INDEX_H

#include "base/layout.h"
#include "index/name.h"
#include "lock/client.h"

struct index {
    struct env *env;
    struct store *store;
    struct hf_client *client; /* NULL for those who do not compile */
    char name[INDEX_NAME_MAX + 1];
    struct schema schema;
    struct etag etag;      /* of index.json, as it was read, ... */
    struct buffer unknown; /* ... and what it has that we do not know (schema_unknown) */
};

enum index_made {
    INDEX_CREATED,
    INDEX_EXTENDED,  /* it was there, and has further fields now */
    INDEX_UNCHANGED, /* it was there just like this */
};

/* Creates it, or extends the one that is there. INVALID when that is another; the reason says what
 * differs. CONFLICT when somebody else changes it just now, again and again. */
enum hf_status index_create(struct store *store, struct view name, const struct schema *schema,
                            enum index_made *ret_made, struct hf_error *error);

/* NOT_FOUND when there is none of this name; INVALID when it is no name. `store` and `client` stay
 * the caller's. */
enum hf_status index_open(struct store *store, struct hf_client *client, struct view name,
                          struct index **ret_index, struct hf_error *error);
void index_close(struct index *index);

/* A handle of its own for another task, without asking the store; NULL without memory. And what one
 * that was given back has learnt of the schema: fields are added behind those that are there, which
 * stay where they are. */
struct index *index_copy(const struct index *index);
void index_learn(struct index *index, const struct index *copy);

/* Reads index.json again, if it is another one by now. */
enum hf_status index_refresh(struct index *index, struct hf_error *error);

/* The key of an object of the index: "index.json", "shards/a3.usv". False when it is too long. */
bool index_key(const struct index *index, char ret_key[KEY_BYTES_MAX + 1], const char *format,
               ...) __attribute__((format(printf, 3, 4)));

/* Whether an object is there: for those whose put, if it is still absent, was refused. UNSURE when
 * the store does not say. */
enum hf_status index_has(struct index *index, struct view object, bool *ret_there,
                         struct hf_error *error);

/* Writes a record of these values, one for each field of the schema; data NULL: left out, and where
 * that is the time, it is now. False without memory. */
bool index_write_record(const struct index *index, struct view *values, struct buffer *bytes);

/* Puts records into the inbox, each as an entry of its own, at most BATCH_MAX. Each is read by the
 * schema first: INVALID is for the whole call, and *ret_bad the first that is none.
 *   OK      all are there, and durable: every reader sees them from now on
 *   UNSURE  some may be there or not, and may still arrive; to put them again does no harm
 * A put without an answer is tried again under its name, a few times. */
enum hf_status index_put(struct index *index, const struct view *records, size_t count,
                         size_t *ret_bad, struct hf_error *error);

#endif
