/* schema.h: what an index is, as indexes/<name>/index.json says it: the fields of its records,
 * which of them is the key and which the time, and into how many shards it is cut.
 *
 * Fields are only ever added at the end: version n has the first fields_of(n) of them. Each
 * version has a hash, which the shards that were written by it repeat. Pure. */
#ifndef INDEX_SCHEMA_H
#define INDEX_SCHEMA_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/view.h"

#include <stdint.h>

#define INDEX_FORMAT       "holdfast.index/1"
#define INDEX_DIGITS_MAX   4
#define INDEX_FIELDS_MAX   256
#define INDEX_FIELD_BYTES  64
#define INDEX_VERSIONS_MAX 64
#define INDEX_BYTES_MAX    ((size_t)256 * 1024) /* of index.json */

struct schema {
    unsigned digits; /* 1 to INDEX_DIGITS_MAX: 16, 256, 4,096 or 65,536 shards; never changes */
    bool foreign;    /* other programs may write entries of their own, under names of theirs */
    size_t key;      /* the field that is the key, counted from 0; never changes */
    size_t time;     /* the one that says when; never changes */
    size_t field_count;
    char fields[INDEX_FIELDS_MAX][INDEX_FIELD_BYTES + 1];
    size_t version_count;
    struct {
        size_t field_count;         /* rises from version to version */
        uint64_t hash;              /* of its fields, key and time */
    } versions[INDEX_VERSIONS_MAX]; /* version 1 first */
};

/* Version 1 of these fields. INVALID: none, too many, one that stands twice or has other bytes
 * than a-z A-Z 0-9 . _ -, a key or time that is no field, or key and time the same. */
enum hf_status schema_new(const struct view *fields, size_t field_count, struct view key,
                          struct view time, unsigned digits, bool foreign,
                          struct schema *ret_schema, struct hf_error *error);

/* The schema with what `wanted` (of version 1) has more at its end, as a further version;
 * *ret_changed says whether it has: not when it is an earlier version. INVALID when `wanted` is
 * anything else: the reason names what differs. */
enum hf_status schema_extend(struct schema *schema, const struct schema *wanted,
                             bool *ret_changed, struct hf_error *error);

/* The field of this name, or field_count. */
size_t schema_find(const struct schema *schema, struct view name);

/* The same for people: INVALID, with the names that there are and the one that was probably meant,
 * when there is none. */
enum hf_status schema_pick(const struct schema *schema, struct view name, size_t *ret_field,
                           struct hf_error *error);

/* Whether a shard of this version and hash is one of ours: OK; CORRUPT when the hash is
 * another; UNSUPPORTED when there is no such version here (yet). */
enum hf_status schema_judge(const struct schema *schema, uint64_t version, uint64_t hash,
                            struct hf_error *error);

/* index.json. CORRUPT when it is not one or contradicts itself (hashes too), UNSUPPORTED when
 * its format is a later one. `nonce` makes its ETag new. `unknown` has the members that we do not
 * know, as schema_unknown found them. */
bool schema_encode(const struct schema *schema, struct view unknown, struct view nonce,
                   struct buffer *text);
enum hf_status schema_decode(struct view text, struct schema *ret_schema,
                             struct hf_error *error);

/* Appends the members of an index.json that we do not know, each as it stands behind a comma, so
 * that they survive a later version of the schema. False without memory. */
bool schema_unknown(struct view text, struct buffer *unknown);

#endif
