/* SPDX-License-Identifier: Apache-2.0 */
/* name.h: keys as object names, the shard of a key, and the names of entries. Pure.
 *
 *     indexes/<name>/inbox/<xx>/<key>~<time>-<nonce>.usv    ours: immutable
 *     indexes/<name>/inbox/<xx>/<key>.usv                   other programs may rewrite these
 *     indexes/<name>/inbox/<key>.usv
 *     indexes/<name>/<key>.usv
 *
 * <time> is the record's time in UTC, such as 20260206T100000, followed by a fraction such as .25
 * if it has one. So the names of one key are in time order. */
#ifndef INDEX_NAME_H
#define INDEX_NAME_H

#include "base/instant.h"
#include "base/layout.h"
#include "index/record.h"

/* A key as a part of an object's name: A-Z a-z 0-9 . _ - as they are, and other bytes as %XX. If
 * that would be longer than INDEX_ESCAPED_MAX, the name is "%=" and the SHA-256 of the key in
 * hexadecimal. */
#define INDEX_ESCAPED_MAX 512
struct key_name {
    size_t size;
    char text[INDEX_ESCAPED_MAX + 1];
};
struct key_name key_name_of(struct view key);

/* Appends the key of such a name. False if the name is not valid, if there is no room
 * (key->failed), or if the key is hashed and only the record contains it (*ret_hashed). */
bool key_of_name(struct view name, struct buffer *key, bool *ret_hashed);

/* The first digits of the SHA-256 of the key: "a3" for example.com. */
struct shard_id {
    char text[INDEX_DIGITS_MAX + 1];
};
struct shard_id shard_of_key(struct view key, unsigned digits);

/* The shard with this number, from 0 to shard_count - 1, and the number of a shard. False: the text
 * is not a shard name with this many digits. */
size_t shard_count(unsigned digits);
struct shard_id shard_of_number(size_t number, unsigned digits);
bool shard_number(struct view text, unsigned digits, size_t *ret_number);

/* What an object below indexes/<name>/ is. */
enum entry_kind {
    ENTRY_NONE,    /* not an entry: index.json, a shard, or something else */
    ENTRY_OURS,    /* immutable */
    ENTRY_FOREIGN, /* flat or in a folder; named after its key */
    ENTRY_STRAY,   /* in the inbox, but not an entry name: set aside */
};

struct entry_name {
    enum entry_kind kind;
    bool hashed;           /* `key` is unknown */
    struct shard_id shard; /* for a stray, the folder's; for ENTRY_NONE, empty */
    struct instant time;   /* ours */
};

/* Parses the name of an object, given without indexes/<name>/, and stores its key in `key`;
 * key->failed is set if there is no room. If possible, a foreign name is parsed as key_name_of
 * writes it. Otherwise the name is the key itself, byte for byte, without a slash and with at most
 * INDEX_ESCAPED_MAX bytes. An entry in a folder that does not belong to its key's shard is a
 * stray. */
struct entry_name entry_read(struct view rest, unsigned digits, struct buffer *key);

/* The object key of one of our entries. False if it is too long, which does not happen for accepted
 * keys. `nonce` has NONCE_SIZE digits. */
bool entry_key(struct view index, const struct schema *schema, const struct record *record,
               const char *nonce, char ret_key[KEY_BYTES_MAX + 1]);

/* All object keys under which another program may have put an entry of this key. These are the keys
 * that entry_read accepts. None if the index does not accept such entries. */
#define FOREIGN_NAMES_MAX 6
size_t foreign_keys(struct view index, const struct schema *schema, struct view key,
                    char ret_keys[FOREIGN_NAMES_MAX][KEY_BYTES_MAX + 1]);

#endif
