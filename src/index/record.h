/* record.h: one record of an index: the bytes between two ends, with US between its fields.
 * src/index/README.md has the rule of separators. Pure. */
#ifndef INDEX_RECORD_H
#define INDEX_RECORD_H

#include "base/instant.h"
#include "index/schema.h"

#define INDEX_KEY_BYTES_MAX    1024
#define INDEX_RECORD_BYTES_MAX ((size_t)1024 * 1024)

/* What all records of this index are read by. Views point to where the bytes are. */
struct record {
    struct view bytes; /* without its end */
    struct view key;   /* as a value: in the bytes, or in `space` where it has escapes */
    struct instant time;
};

/* Reads one. INVALID, with the reason in words, when it is no record of this schema: too long,
 * not UTF-8, a separator or NUL without its escape, a wrong escape, more fields than the
 * schema has, no key, a key that is too long, no time or one that cannot be read.
 * *ret_too_many_fields (may be NULL) says that a later schema might take it. `space` is used
 * for a key with escapes only; it is cleared first. */
enum hf_status record_read(const struct schema *schema, struct view bytes, struct buffer *space,
                           struct record *ret_record, bool *ret_too_many_fields,
                           struct hf_error *error);

/* <0, 0, >0: whether a is earlier than b: by time, then by bytes. They have the same key. Give
 * the one that was there first as a. */
int record_compare(const struct record *a, const struct record *b);

/* Cuts the next record off a text of many: LF, RS and RS LF end one, and one that is empty is
 * none. False at the end. */
bool record_cut(struct view *rest, struct view *ret_bytes);

/* Cuts the next field off, as it is written; call it with *more true at first, until it is
 * false. An empty record has one field, which is empty. */
struct view field_cut(struct view *rest, bool *more);

/* Appends a value as it is written in a field; false without memory or room. */
bool field_write(struct buffer *to, struct view value);

/* Appends the value of what is written in a field; false when an escape is wrong, too: then
 * nothing was appended, and to->failed is not set. */
bool field_read(struct buffer *to, struct view written);

/* Whether this is the value of what is written in a field of a record that was read. */
bool field_is(struct view written, struct view value);

/* Appends a record of these values, one for each field (fewer: the rest are left out), without
 * its end. Then it should be read by record_read, which judges it. */
bool record_write(struct buffer *to, const struct view *values, size_t count);

#define RECORD_END "\n"

#endif
