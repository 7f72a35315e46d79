/* name.h: keys as names of objects, the shard of a key, and names of entries. Pure.
 *
 *     indexes/<name>/inbox/<xx>/<key>~<time>-<nonce>.usv    ours: immutable
 *     indexes/<name>/inbox/<xx>/<key>.usv                   others may write it again
 *     indexes/<name>/inbox/<key>.usv
 *     indexes/<name>/<key>.usv
 *
 * <time> is the record's, in UTC: 20260206T100000, with .25 behind it where it has a fraction;
 * so names of one key are in the order of their times. */
#ifndef INDEX_NAME_H
#define INDEX_NAME_H

#include "base/instant.h"
#include "base/layout.h"
#include "index/record.h"

/* A key as a part of an object's name: A-Z a-z 0-9 . _ - as they are, other bytes as %XX; "%="
 * and the SHA-256 in hexadecimal when that would be longer than INDEX_ESCAPED_MAX. */
#define INDEX_ESCAPED_MAX 512
struct key_name {
    size_t size;
    char text[INDEX_ESCAPED_MAX + 1];
};
struct key_name key_name_of(struct view key);

/* Appends the key of such a name; false when it is none (or key->failed says that it has no
 * room), or the name of a key that was too long, which only its record tells: *ret_hashed. */
bool key_of_name(struct view name, struct buffer *key, bool *ret_hashed);

/* The first digits of the SHA-256 of the key: "a3" of example.com. */
struct shard_id {
    char text[INDEX_DIGITS_MAX + 1];
};
struct shard_id shard_of_key(struct view key, unsigned digits);

/* The shard of this number, 0 to shard_count - 1, and the other way round: false when the text
 * is no shard of so many digits. */
size_t shard_count(unsigned digits);
struct shard_id shard_of_number(size_t number, unsigned digits);
bool shard_number(struct view text, unsigned digits, size_t *ret_number);

/* Where an object below indexes/<name>/ belongs. */
enum entry_kind {
    ENTRY_NONE,    /* it is no entry: index.json, a shard, something else */
    ENTRY_OURS,    /* immutable */
    ENTRY_FOREIGN, /* flat or in a folder; its name is its key's */
    ENTRY_STRAY,   /* in the inbox, and nobody knows what it is meant to be: set aside */
};

struct entry_name {
    enum entry_kind kind;
    bool hashed;           /* `key` is unknown */
    struct shard_id shard; /* of a stray: the folder's; of none: empty */
    struct instant time;   /* ours */
};

/* Reads the name of an object, given without indexes/<name>/; appends its key to `key`, which
 * is cleared first; key->failed when it has no room. A foreign name is that of key_name_of, if
 * it can be; else it is the key itself, byte for byte, which then has no slash and at most
 * INDEX_ESCAPED_MAX bytes. An entry in the folder of a shard that is not its key's is a stray. */
struct entry_name entry_read(struct view rest, unsigned digits, struct buffer *key);

/* The key of an entry of ours: false when it is too long (it is not, for the keys that we
 * take). `nonce` is NONCE_SIZE digits. */
bool entry_key(struct view index, const struct schema *schema, const struct record *record,
               const char *nonce, char ret_key[KEY_BYTES_MAX + 1]);

/* All names under which another program may have put an entry of this key: object keys, just
 * those that entry_read reads as such. None when the index takes none from others. */
#define FOREIGN_NAMES_MAX 6
size_t foreign_keys(struct view index, const struct schema *schema, struct view key,
                    char ret_keys[FOREIGN_NAMES_MAX][KEY_BYTES_MAX + 1]);

#endif
