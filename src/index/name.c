/* SPDX-License-Identifier: Apache-2.0 */
/* name.c: writes and parses keys as object names, the shard of a key, and the names of entries. A
 * key has exactly one name; otherwise a reader would miss some of its entries. */
#include "index/name.h"

#include "base/check.h"
#include "base/evidence.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/utf8.h"

#include <stdio.h>

#define HASHED_MARK   VIEW("%=")
#define HASH_DIGITS   (2 * SHA256_BYTES)
#define ENTRY_END     VIEW(LAYOUT_SHARD) /* entries end like shards */
#define TIME_DIGITS   15                 /* 20260206T100000 */
#define FRACTION_MAX  18
#define SECONDS_A_DAY 86400

/* Flat, in the inbox, or in a shard's folder. */
#define FOREIGN_PLACES 3
static_assert(2 * FOREIGN_PLACES == FOREIGN_NAMES_MAX, "each with two names");

/* '~', a time, '.', its fraction, '-', a nonce. */
#define ENTRY_TAIL_MAX (1 + TIME_DIGITS + 1 + FRACTION_MAX + 1 + NONCE_SIZE)

static_assert(sizeof LAYOUT_INDEX_FOLDER + INDEX_NAME_MAX + 1 + sizeof LAYOUT_INBOX_FOLDER +
                      INDEX_DIGITS_MAX + 1 + INDEX_ESCAPED_MAX + ENTRY_TAIL_MAX +
                      sizeof LAYOUT_SHARD <
                  KEY_BYTES_MAX,
              "an entry of any key has a name");

/* ---- Keys ---------------------------------------------------------------------------- */

static bool stands_for_itself(char c)
{
    char small = (char)(c | 0x20);
    return (small >= 'a' && small <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

static struct key_name hashed_name(struct view key)
{
    struct key_name name = { .size = HASHED_MARK.size + HASH_DIGITS };
    unsigned char digest[SHA256_BYTES];
    hash_sha256(key, digest);
    memcpy(name.text, HASHED_MARK.data, HASHED_MARK.size);
    hex_encode(digest, sizeof digest, name.text + HASHED_MARK.size);
    return name;
}

struct key_name key_name_of(struct view key)
{
    static const char digits[] = "0123456789ABCDEF";
    struct key_name name = { .size = 0 };
    for (size_t i = 0; i < key.size; i++) {
        unsigned char byte = (unsigned char)key.data[i];
        bool plain = stands_for_itself(key.data[i]);
        if (name.size + (plain ? 1 : 3) > INDEX_ESCAPED_MAX)
            return hashed_name(key);
        if (!plain) {
            name.text[name.size++] = '%';
            name.text[name.size++] = digits[byte >> 4];
        }
        name.text[name.size++] = plain ? key.data[i] : digits[byte & 15];
    }
    name.text[name.size] = '\0';
    return name;
}

/* A key that was read from a name. */
struct key_space {
    size_t size;
    char bytes[INDEX_ESCAPED_MAX];
};

static bool is_small_hex(struct view text)
{
    size_t at = 0;
    while (at < text.size && hex_digit(text.data[at]) >= 0 &&
           !(text.data[at] < 'a' && text.data[at] > '9'))
        at++;
    return at == text.size;
}

static bool is_hashed_name(struct view name)
{
    return name.size == HASHED_MARK.size + HASH_DIGITS && view_starts_with(name, HASHED_MARK) &&
           is_small_hex(view_from(name, HASHED_MARK.size));
}

/* The byte that %XX stands for, or -1. Only the canonical form is accepted. */
static int escaped_byte(struct view text)
{
    if (text.size < 3 || text.data[0] != '%')
        return -1;
    int high = hex_digit(text.data[1]), low = hex_digit(text.data[2]);
    bool small = text.data[1] >= 'a' || text.data[2] >= 'a';
    if (high < 0 || low < 0 || small || stands_for_itself((char)(high << 4 | low)))
        return -1;
    return high << 4 | low;
}

static bool unescape(struct view name, struct key_space *ret_key)
{
    ret_key->size = 0;
    if (name.size == 0 || name.size > INDEX_ESCAPED_MAX)
        return false;
    for (size_t at = 0; at < name.size;) {
        bool plain = stands_for_itself(name.data[at]);
        int byte = plain ? name.data[at] : escaped_byte(view_from(name, at));
        if (byte < 0)
            return false;
        ret_key->bytes[ret_key->size++] = (char)byte;
        at += plain ? 1 : 3;
    }
    return true;
}

bool key_of_name(struct view name, struct buffer *key, bool *ret_hashed)
{
    struct key_space space;
    *ret_hashed = is_hashed_name(name);
    return !*ret_hashed && unescape(name, &space) &&
           buffer_append(key, (struct view){ space.bytes, space.size });
}

/* ---- Shards -------------------------------------------------------------------------- */

struct shard_id shard_of_key(struct view key, unsigned digits)
{
    struct shard_id shard = { "" };
    unsigned char digest[SHA256_BYTES];
    char hex[2 * INDEX_DIGITS_MAX + 1];
    check(digits >= 1 && digits <= INDEX_DIGITS_MAX);
    hash_sha256(key, digest);
    hex_encode(digest, INDEX_DIGITS_MAX, hex);
    memcpy(shard.text, hex, digits);
    return shard;
}

size_t shard_count(unsigned digits)
{
    check(digits >= 1 && digits <= INDEX_DIGITS_MAX);
    return (size_t)1 << (4 * digits);
}

struct shard_id shard_of_number(size_t number, unsigned digits)
{
    struct shard_id shard = { "" };
    check(number < shard_count(digits));
    for (size_t i = digits; i > 0; i--, number >>= 4)
        shard.text[i - 1] = "0123456789abcdef"[number & 15];
    return shard;
}

bool shard_number(struct view text, unsigned digits, size_t *ret_number)
{
    size_t number = 0;
    if (text.size != digits || !is_small_hex(text))
        return false;
    for (size_t i = 0; i < text.size; i++)
        number = number << 4 | (size_t)hex_digit(text.data[i]);
    *ret_number = number;
    return true;
}

/* ---- Times --------------------------------------------------------------------------- */

struct time_name {
    char text[TIME_DIGITS + 1 + FRACTION_MAX + 1];
};

static void write_decimal(char *text, size_t count, uint64_t number)
{
    for (size_t i = count; i > 0; i--, number /= 10)
        text[i - 1] = (char)('0' + number % 10);
}

static struct time_name time_name_of(struct instant time)
{
    struct time_name name = { "" };
    int64_t days = (time.s - INSTANT_S_MIN) / SECONDS_A_DAY + INSTANT_S_MIN / SECONDS_A_DAY;
    uint64_t second = (uint64_t)(time.s - days * SECONDS_A_DAY);
    check(time.s >= INSTANT_S_MIN && time.s <= INSTANT_S_MAX);
    struct date date = date_of_days(days);
    write_decimal(name.text, 8, date.year * 10000 + date.month * 100 + date.day);
    name.text[8] = 'T';
    write_decimal(name.text + 9, 6,
                  second / 3600 * 10000 + second / 60 % 60 * 100 + second % 60);
    if (time.atto == 0)
        return name;
    size_t end = TIME_DIGITS + 1 + FRACTION_MAX;
    name.text[TIME_DIGITS] = '.';
    write_decimal(name.text + TIME_DIGITS + 1, FRACTION_MAX, time.atto);
    while (name.text[end - 1] == '0')
        name.text[--end] = '\0';
    return name;
}

/* Parses the time, and accepts only the canonical form. */
static bool parse_time_name(struct view name, struct instant *ret_time)
{
    char text[sizeof "2026-02-06T10:00:00.Z" + FRACTION_MAX];
    if (name.size < TIME_DIGITS || name.size > TIME_DIGITS + 1 + FRACTION_MAX)
        return false;
    const char *digits = name.data;
    int size = snprintf(text, sizeof text, "%.4s-%.2s-%.2sT%.2s:%.2s:%.2s%.*sZ", digits,
                        digits + 4, digits + 6, digits + 9, digits + 11, digits + 13,
                        VIEW_ARGS(view_from(name, TIME_DIGITS)));
    struct instant time;
    if (size < 0 || !instant_parse_rfc3339((struct view){ text, (size_t)size }, &time))
        return false;
    struct time_name again = time_name_of(time);
    if (!view_equal(view_of(again.text), name))
        return false;
    *ret_time = time;
    return true;
}

/* ---- Entries ------------------------------------------------------------------------- */

/* Parses a name that key_name_of made. A hashed name shows the shard, but not the key. */
static bool parse_key_name(struct view text, unsigned digits, struct entry_name *name,
                           struct key_space *key)
{
    name->hashed = is_hashed_name(text);
    if (name->hashed) {
        key->size = 0;
        memcpy(name->shard.text, text.data + HASHED_MARK.size, digits);
        return true;
    }
    if (!unescape(text, key))
        return false;
    name->shard = shard_of_key((struct view){ key->bytes, key->size }, digits);
    return true;
}

static bool parse_own_name(struct view leaf, unsigned digits, struct entry_name *ret_name,
                           struct key_space *key)
{
    struct entry_name name = { .kind = ENTRY_OURS };
    size_t mark = view_find(leaf, '~');
    struct view tail = view_from(leaf, mark + 1); /* <time>-<nonce> */
    if (tail.size < NONCE_SIZE + 1 || tail.data[tail.size - NONCE_SIZE - 1] != '-' ||
        !is_small_hex(view_from(tail, tail.size - NONCE_SIZE)) ||
        !parse_time_name(view_first(tail, tail.size - NONCE_SIZE - 1), &name.time) ||
        !parse_key_name(view_first(leaf, mark), digits, &name, key))
        return false;
    *ret_name = name;
    return true;
}

static bool parse_foreign_name(struct view leaf, unsigned digits, struct entry_name *ret_name,
                               struct key_space *key)
{
    struct entry_name name = { .kind = ENTRY_FOREIGN };
    if (!parse_key_name(leaf, digits, &name, key)) {
        if (leaf.size == 0 || leaf.size > INDEX_ESCAPED_MAX || view_find(leaf, '/') < leaf.size)
            return false;
        memcpy(key->bytes, leaf.data, leaf.size);
        key->size = leaf.size;
        name.shard = shard_of_key(leaf, digits);
    }
    *ret_name = name;
    return true;
}

/* The folder of a shard contains our entries for that shard, and entries from other programs. */
static bool parse_in_folder(struct view folder, struct view leaf, unsigned digits,
                            struct entry_name *ret_name, struct key_space *key)
{
    struct entry_name name;
    if (!parse_own_name(leaf, digits, &name, key) &&
        !parse_foreign_name(leaf, digits, &name, key))
        return false;
    if (!view_equal(folder, view_of(name.shard.text)))
        return false;
    *ret_name = name;
    return true;
}

static struct entry_name parse_entry_name(struct view rest, unsigned digits,
                                          struct key_space *key)
{
    bool in_inbox = view_starts_with(rest, VIEW(LAYOUT_INBOX_FOLDER));
    struct entry_name name = { .kind = in_inbox ? ENTRY_STRAY : ENTRY_NONE };
    struct view folder = VIEW("");
    size_t number;
    key->size = 0;
    if (in_inbox)
        rest = view_from(rest, sizeof LAYOUT_INBOX_FOLDER - 1);
    bool in_folder = in_inbox && view_find(rest, '/') < rest.size;
    if (in_folder)
        folder = view_cut(&rest, '/');
    if (in_folder && shard_number(folder, digits, &number))
        name.shard = shard_of_number(number, digits);
    if (!view_ends_with(rest, ENTRY_END))
        return name;
    struct view leaf = view_first(rest, rest.size - ENTRY_END.size);
    bool read = in_folder ? parse_in_folder(folder, leaf, digits, &name, key)
                          : parse_foreign_name(leaf, digits, &name, key);
    if (!read)
        key->size = 0;
    return name;
}

struct entry_name entry_read(struct view rest, unsigned digits, struct buffer *key)
{
    struct key_space space;
    struct entry_name name = parse_entry_name(rest, digits, &space);
    buffer_clear(key);
    buffer_append(key, (struct view){ space.bytes, space.size });
    return name;
}

bool entry_key(struct view index, const struct schema *schema, const struct record *record,
               const char *nonce, char ret_key[KEY_BYTES_MAX + 1])
{
    struct key_name name = key_name_of(record->key);
    struct shard_id shard = shard_of_key(record->key, schema->digits);
    struct time_name time = time_name_of(record->time);
    int size = snprintf(ret_key, KEY_BYTES_MAX + 1,
                        LAYOUT_INDEX_FOLDER "%.*s/" LAYOUT_INBOX_FOLDER "%s/%s~%s-%.*s%s",
                        VIEW_ARGS(index), shard.text, name.text, time.text, NONCE_SIZE, nonce,
                        LAYOUT_SHARD);
    return size > 0 && size <= KEY_BYTES_MAX;
}

/* Whether an object with this name is read as a foreign entry of this key. A hashed name may belong
 * to any key, unless it was `made` from this key. */
static bool is_foreign_of(struct view rest, unsigned digits, struct view key, bool made)
{
    struct key_space space;
    struct entry_name name = parse_entry_name(rest, digits, &space);
    if (name.kind != ENTRY_FOREIGN)
        return false;
    return name.hashed ? made : view_equal((struct view){ space.bytes, space.size }, key);
}

size_t foreign_keys(struct view index, const struct schema *schema, struct view key,
                    char ret_keys[FOREIGN_NAMES_MAX][KEY_BYTES_MAX + 1])
{
    struct key_name name = key_name_of(key);
    struct shard_id shard = shard_of_key(key, schema->digits);
    char folders[FOREIGN_PLACES][sizeof LAYOUT_INBOX_FOLDER + INDEX_DIGITS_MAX + 1];
    const struct view leaves[] = { { name.text, name.size }, key };
    bool bare_too =
        !view_equal(leaves[0], key) && utf8_is_text(key) && key.size <= INDEX_ESCAPED_MAX;
    size_t leaf_count = !schema->foreign ? 0 : bare_too ? 2 : 1, count = 0;
    snprintf(folders[0], sizeof folders[0], "%s", "");
    snprintf(folders[1], sizeof folders[1], "%s", LAYOUT_INBOX_FOLDER);
    snprintf(folders[2], sizeof folders[2], "%s%s/", LAYOUT_INBOX_FOLDER, shard.text);
    for (size_t i = 0; i < leaf_count * FOREIGN_PLACES; i++) {
        bool made = i < FOREIGN_PLACES;
        int size = snprintf(ret_keys[count], KEY_BYTES_MAX + 1,
                            LAYOUT_INDEX_FOLDER "%.*s/%s%.*s" LAYOUT_SHARD, VIEW_ARGS(index),
                            folders[i % FOREIGN_PLACES], VIEW_ARGS(leaves[made ? 0 : 1]));
        check(size > 0 && size <= KEY_BYTES_MAX);
        struct view rest = view_from((struct view){ ret_keys[count], (size_t)size },
                                     sizeof LAYOUT_INDEX_FOLDER + index.size);
        count += is_foreign_of(rest, schema->digits, key, made);
    }
    return count;
}
