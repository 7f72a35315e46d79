/* SPDX-License-Identifier: Apache-2.0 */
/* schema.h: the definition of an index, stored in indexes/<name>/index.json: the fields of its
 * records, which of them are the key and the time, and the number of shards.
 *
 * Fields can only be appended: version n has the first versions[n - 1].field_count of them. Each
 * version has a hash, which is repeated in the shards that are written with it. Pure. */
#ifndef INDEX_SCHEMA_H
#define INDEX_SCHEMA_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/instant.h"
#include "base/stamp.h"
#include "base/view.h"

#include <stdint.h>

#define INDEX_FORMAT       "holdfast.index/1"
#define INDEX_FORMAT_LATER "holdfast.index/2" /* of an index that older programs must not use */
#define INDEX_DIGITS_MAX   4
#define INDEX_FIELDS_MAX   256
#define INDEX_FIELD_BYTES  64
#define INDEX_VERSIONS_MAX 64
#define INDEX_BYTES_MAX    ((size_t)256 * 1024) /* of index.json */

struct schema {
    unsigned digits; /* 1 to INDEX_DIGITS_MAX: 16, 256, 4,096 or 65,536 shards; never changes */
    bool foreign;    /* other programs may write entries too, under their own names */
    size_t key;      /* index of the key field, from 0; never changes */
    size_t time;     /* index of the time field; never changes */
    /* Times without a zone are in this one, which never changes. An index with a zone has the later
     * format, because an older program would set its records aside. */
    bool has_zone;
    int64_t zone_east_s; /* seconds east of UTC */
    /* Shards consist of records alone (plain.h); never changes. Such an index has the later format
     * too. */
    bool plain;
    /* Keys have been deleted, so that inboxes and shards may contain deletions; never becomes
     * false. Such an index has the later format too. */
    bool deletes;
    /* The index is being dropped, since then; it has the later format too. */
    bool dropped;
    struct stamp dropped_at;
    bool emptied; /* dropped, and nothing is left or can still arrive: the name is free */
    size_t field_count;
    char fields[INDEX_FIELDS_MAX][INDEX_FIELD_BYTES + 1];
    size_t version_count;
    struct {
        size_t field_count;         /* grows with each version */
        uint64_t hash;              /* of its fields, key and time */
    } versions[INDEX_VERSIONS_MAX]; /* version 1 first */
};

/* The parts from which a schema is created. */
struct schema_spec {
    const struct view *fields;
    size_t field_count;
    struct view key, time; /* names of these two fields */
    unsigned digits;
    bool foreign;
    bool plain;
};

/* Parses a time: with a zone, as a number since 1970 or, if the index has a zone, without one. */
bool schema_parse_time(const struct schema *schema, struct view text,
                       struct instant *ret_instant);

/* Sets the zone of times that have none: "UTC", "+02:00"; empty: such times are refused, as they
 * are without this call. INVALID: not a zone. */
enum hf_status schema_set_zone(struct schema *schema, struct view zone, struct hf_error *error);

/* The zone as text: "UTC", "+02:00"; "none" if there is none. */
#define ZONE_TEXT_MAX sizeof "+00:00"
const char *zone_text(const struct schema *schema, char text[ZONE_TEXT_MAX]);

/* Creates version 1 with these fields. INVALID: no fields, too many fields, a duplicate, a name
 * with bytes other than a-z A-Z 0-9 . _ -, a key or time that is not a field, or the same field for
 * both. */
enum hf_status schema_new(const struct schema_spec *spec, struct schema *ret_schema,
                          struct hf_error *error);

/* Adds the additional fields of `wanted`, which has only version 1, as a new version. *ret_changed
 * is false if `wanted` matches an existing version. INVALID: `wanted` differs in another way, which
 * the error explains. */
enum hf_status schema_extend(struct schema *schema, const struct schema *wanted,
                             bool *ret_changed, struct hf_error *error);

/* Copies a schema. Most of a struct schema is room for fields that it does not have; this does not
 * touch it. */
void schema_copy(struct schema *to, const struct schema *from);

/* The field with this name, or field_count. */
size_t schema_find(const struct schema *schema, struct view name);

/* The same, with a helpful error. INVALID: the error lists the fields and suggests a likely one. */
enum hf_status schema_pick(const struct schema *schema, struct view name, size_t *ret_field,
                           struct hf_error *error);

/* Whether a shard with this version and hash matches the schema. CORRUPT: the hash differs.
 * UNSUPPORTED: this schema does not have the version (yet). */
enum hf_status schema_check_version(const struct schema *schema, uint64_t version,
                                    uint64_t hash, struct hf_error *error);

/* Encodes and decodes index.json. CORRUPT: malformed or inconsistent, for example because of a
 * wrong hash. UNSUPPORTED: a newer format. `nonce` makes the ETag unique. `unknown` contains the
 * unknown members that schema_unknown has found. */
bool schema_encode(const struct schema *schema, struct view unknown, struct view nonce,
                   struct buffer *text);
enum hf_status schema_decode(struct view text, struct schema *ret_schema,
                             struct hf_error *error);

/* Appends the unknown members of an index.json, each after a comma, so that a schema change
 * preserves them. False if out of memory. */
bool schema_unknown(struct view text, struct buffer *unknown);

#endif
