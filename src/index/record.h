/* SPDX-License-Identifier: Apache-2.0 */
/* record.h: one record of an index: the bytes between two terminators, with US between its fields.
 * src/index/README.md contains the separator rule. Pure. */
#ifndef INDEX_RECORD_H
#define INDEX_RECORD_H

#include "base/instant.h"
#include "index/schema.h"

#define INDEX_KEY_BYTES_MAX    1024
#define INDEX_RECORD_BYTES_MAX ((size_t)1024 * 1024)

/* A parsed record. Views point into its bytes. */
struct record {
    struct view bytes; /* without its end */
    struct view key;   /* unescaped: in the bytes, or in `space` if it had escapes */
    struct instant time;
    bool deleted; /* a deletion: the key has no record as of this time */
    /* For index_fold: a number that belongs to the caller, and whether the shard's floor refused
     * the record. */
    size_t tag;
    bool refused;
    bool moot; /* the shard needs neither it nor a later one: a deletion of it was dropped */
};

/* A deletion is a record that starts with GS and then has the key and the time of a record. No
 * other record contains GS, so a program that does not know deletions cannot take one for data. */
#define RECORD_DELETED "\x1d"

typedef enum hf_status record_reader(const struct schema *schema, struct view bytes,
                                     struct buffer *space, struct record *ret_record,
                                     bool *ret_too_many_fields, struct hf_error *error);

/* Parses a record. INVALID, with the reason, if it is not a record of this schema: too long, not
 * UTF-8, a separator or NUL without its escape, an invalid escape, more fields than the schema, no
 * key, a key that is too long, no time, or an unreadable time. *ret_too_many_fields (may be NULL):
 * a later version of the schema might accept it. `space` is cleared, and is used only for a key
 * with escapes. */
record_reader record_read;

/* The same for the contents of an index, which may also be deletions (RECORD_DELETED). */
record_reader record_read_stored;

/* Compares two records with the same key by time, then by bytes: <0 if a is earlier than b. Pass
 * the existing record as a. */
int record_compare(const struct record *a, const struct record *b);

/* The latest of the records with the same key as records[first]; records of a key are adjacent.
 * *ret_behind is the index of the first record with another key. */
struct record *record_latest(struct record *records, size_t first, size_t count,
                             size_t *ret_behind);

/* Takes the next record from a text: LF, RS and RS LF end a record. Empty records are skipped.
 * False at the end. */
bool record_cut(struct view *rest, struct view *ret_bytes);

/* Takes the next field, as written. Set *more to true before the first call, and repeat the call
 * until it is false. An empty record has one field, which is empty. */
struct view field_cut(struct view *rest, bool *more);

/* Appends a value in its escaped form; false if out of memory or room. */
bool field_write(struct buffer *to, struct view value);

/* Appends the value of an escaped field. Also returns false for an invalid escape; in that case
 * nothing is appended, and to->failed is not set. */
bool field_read(struct buffer *to, struct view written);

/* Compares the value of an escaped field of a valid record with this value, like view_compare. */
int field_compare(struct view written, struct view value);

static inline bool field_is(struct view written, struct view value)
{
    return field_compare(written, value) == 0;
}

/* Appends a record with these values, one per field, without its terminator. Missing values at the
 * end are omitted. The caller checks the result with record_read. */
bool record_write(struct buffer *to, const struct view *values, size_t count);

#define RECORD_END "\n"

#endif
