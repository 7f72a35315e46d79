/* SPDX-License-Identifier: Apache-2.0 */
/* members.h: the members of JSON objects, described by a table: where each is stored in a struct,
 * its limits, and whether it may be missing. One table serves both directions, so what is written
 * can be read again.
 *
 *     static const struct member members[] = {
 *         MEMBER(cursor, "turn", MEMBER_U64, turn, UINT64_MAX, MEMBER_ALWAYS),
 *         MEMBER(cursor, "since", MEMBER_STAMP, since, 0, MEMBER_NEEDED),
 *     };
 *     static const struct member_table table = MEMBER_TABLE(members, "a member is missing");
 *
 * Members that are not in the table are kept as text, so a program does not drop what a later
 * version wrote. */
#ifndef BASE_MEMBERS_H
#define BASE_MEMBERS_H

#include "base/json.h"
#include "base/stamp.h"

#include <stddef.h>

/* How a member is stored in its struct. */
enum member_kind {
    MEMBER_OWN,   /* read by `take`, and written by `write`, if that is set */
    MEMBER_TEXT,  /* struct view, of at most `max` bytes without NUL */
    MEMBER_CHARS, /* char[max]; a string that does not fit is ignored */
    MEMBER_U64,   /* up to `max`, like the next */
    MEMBER_U32,
    MEMBER_I64,  /* from -max to max, like the next */
    MEMBER_MS,   /* int64_t in microseconds; milliseconds in JSON */
    MEMBER_BOOL, /* written only if true */
    MEMBER_STAMP,
    MEMBER_WORD,   /* an enum of `max` values, as the word that `word` gives for each */
    MEMBER_OBJECT, /* a struct with a table of its own; its unknown members are dropped */
};

enum member_need {
    MEMBER_OPTIONAL, /* not written if it is zero or empty */
    MEMBER_ALWAYS,   /* always written, and may be missing */
    MEMBER_NEEDED,   /* always written, and must not be missing */
};

/* A decoder. `take` functions get it. */
struct member_reader {
    struct json_reader *json;
    struct buffer *space;   /* for strings with escapes; large enough not to move */
    struct buffer *unknown; /* gets unknown members, as ,"name":value; NULL: they are dropped */
    void *context;
};

struct member_table;

struct member {
    struct view name;
    enum member_kind kind;
    enum member_need need;
    size_t offset;
    uint64_t min, max; /* `min` is for callers that check what they write */
    const struct member_table *table;
    const char *(*word)(unsigned value);
    const char *unknown_word; /* the mistake if a word is unknown */
    /* Optional: read, omit or write in a way of their own. */
    bool (*take)(struct member_reader *reader, void *object);
    bool (*is_omitted)(const void *object);
    void (*write)(const void *object, struct buffer *text);
};

#define MEMBER(type, text, member_kind, field, most, when)                    \
    {                                                                         \
        .name = { text, sizeof(text) - 1 }, .kind = (member_kind),            \
        .offset = offsetof(struct type, field), .max = (most), .need = (when) \
    }
#define MEMBER_BY(text, function, when)                                        \
    {                                                                          \
        .name = { text, sizeof(text) - 1 }, .need = (when), .take = (function) \
    }

/* The members of one kind of object, at most 32, in the order in which they are written, so that
 * each is found at the first attempt. `lacking` is the mistake if a needed one is missing. */
struct member_table {
    const struct member *members;
    size_t count;
    const char *lacking;
};
#define MEMBER_TABLE(list, error)                     \
    {                                                 \
        (list), sizeof(list) / sizeof(list)[0], error \
    }

/* Reads an object into a struct. Members that are missing leave it unchanged; each may occur
 * once. */
bool members_read(struct member_reader *reader, const struct member_table *table, void *object);

/* Appends the members of a struct, without brackets, and `before` in front of the first. Those that
 * are MEMBER_OWN without `write` are left to the caller. */
void members_write(const struct member_table *table, const void *object, char before,
                   struct buffer *text);

#endif
