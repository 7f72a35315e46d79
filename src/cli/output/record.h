/* SPDX-License-Identifier: Apache-2.0 */
/* record.h: the output of commands, with one table of fields per kind of record. tools/records.py
 * generates the tables from the files in src/cli/records, and describes their syntax. JSON lines
 * are generated from the table, and display texts refer to its fields, so the two cannot disagree.
 * A test compares docs/json with the same files.
 *
 *     record txn of hf_txn_info: txn-show txn-ls
 *         txn       text at id
 *         state     name by hf_txn_state_name
 *         began_at  time at began_at_ms, optional
 *
 *     const struct field txn_record[] = TXN_RECORD;
 *     record_tell(cli, txn_record, txn, "{txn} is {state}[, begun {began_at}]\n");
 *
 * A display text may contain:
 *     {name}       the field: "7", "1.5 MiB", "12s", a time, a text with control bytes escaped;
 *                  {name.part} is the field `part` of the object `name`
 *     {name noun}  the field with its noun: "1 chunk", "2 chunks"
 *     {name:is/are}  one of two texts, without the field: the first when it is 1
 *     {name<10}    padded on the right to 10 columns; {name>10} padded on the left
 *     {name?}      a condition, which prints nothing
 *     [some|else]  `some` if all conditions in it are true (not zero, not empty, not false), or,
 *                  without conditions, if all its fields are; otherwise `else`, which is optional.
 *                  After a colon a leading comma is dropped: "done:[, {new} new][, ...]" */
#ifndef CLI_OUTPUT_RECORD_H
#define CLI_OUTPUT_RECORD_H

#include "cli/output/output.h"
#include "cli/record_table.h"

struct cli;

enum field_kind {
    FIELD_HINT,  /* a text that is not in JSON: the text itself, or written by .append */
    FIELD_AGO,   /* not in JSON; negative milliseconds from now: "3m ago" */
    FIELD_TEXT,  /* null if the pointer is NULL */
    FIELD_WORDS, /* null if the pointer is NULL or the text is empty */
    FIELD_KEY,   /* the key of an object: in hexadecimal, as name_hex, unless it is UTF-8 */
    FIELD_NAME,  /* an enum, by .name_of */
    FIELD_JSON,  /* a text that is JSON */
    FIELD_BOOL,  /* in a text, only a condition */
    FIELD_NOT,   /* a bool that is negated in JSON */
    FIELD_COUNT,
    FIELD_BYTES,    /* a count; "1.5 MiB" */
    FIELD_SPAN,     /* milliseconds; "12s", rounded down as brief_text does */
    FIELD_LENGTH,   /* milliseconds; exact: "12s250ms" */
    FIELD_MICROS,   /* microseconds; in JSON, whole milliseconds */
    FIELD_FRACTION, /* microseconds; in JSON, fractional milliseconds; exact in texts */
    FIELD_TIME,     /* milliseconds since 1970; RFC 3339 */
    FIELD_CRC32C,   /* eight hexadecimal digits */
    FIELD_TEXTS,    /* an array of texts, with .count items; "a, b, c" */
    FIELD_OBJECT,   /* an object with the fields of .of */
    FIELD_PART,     /* the fields of .of, as if they were written here */
    FIELD_LIST,     /* a struct record_list of .of */
};

enum field_store { STORED_BYTES, STORED_ARRAY, STORED_POINTER, STORED_VIEW };

/* A row of a table. A record is an array of rows, and ends with a row whose name is NULL. The rows
 * are small because each process relocates all of them when it starts. */
struct field {
    const char *name; /* of the member in JSON, and of the field in texts */
    union {
        const struct field *of;                               /* OBJECT, PART, LIST */
        const char *(*name_of)(unsigned value);               /* NAME */
        void (*append)(struct buffer *to, const void *value); /* HINT; NULL: the text itself */
    };
    const char *needs;       /* omitted unless that field is set; "!name": if it is set */
    const char *null_unless; /* null unless that field is set */
    uint16_t offset, size;   /* in the struct */
    uint16_t count;          /* TEXTS, KEY: offset of the size_t; 0: none */
    enum field_kind kind : 8;
    enum field_store store : 4;
    bool optional : 1; /* omitted if it is zero or empty */
    bool pointed : 1;  /* OBJECT, PART: a pointer */
    bool hidden : 1;   /* not in JSON: for texts and conditions */
};

/* The initialisers of rows. SELF refers to the same struct as another record. */
#define AT(kind_of, tag, member)                                              \
    .kind = FIELD_##kind_of, .store = FIELD_STORE(((struct tag *)0)->member), \
    .offset = offsetof(struct tag, member), .size = sizeof(((struct tag *)0)->member)
#define SELF(kind_of) .kind = FIELD_##kind_of
#define FIELD_STORE(member) \
    _Generic(member,                  \
        char *: STORED_ARRAY,         \
        const char *: STORED_POINTER, \
        struct view: STORED_VIEW,     \
        default: STORED_BYTES)

/* NAMES casts a function that takes an enum, which is passed as an unsigned number. APPENDS casts a
 * function that takes a pointer to its own struct. */
#define NAMES(function)   ((const char *(*)(unsigned))(function))
#define APPENDS(function) ((void (*)(struct buffer *, const void *))(function))

json_t *record_json(const struct field *record, const void *value);

/* Appends the text. Texts are escaped; keys too, unless `raw` is set. */
void record_append(struct buffer *to, bool raw, const struct field *record, const void *value,
                   const char *text);

/* Prints a result: one line of JSON with --json, otherwise the text, which may be NULL. --quiet
 * does not suppress it. */
void record_show(struct cli *cli, const struct field *record, const void *value,
                 const char *text);

/* Like record_show, but for a text that only confirms an action: --quiet suppresses it. */
void record_tell(struct cli *cli, const struct field *record, const void *value,
                 const char *text);

/* A list that is a member of a record: objects with --json, otherwise lines. Zero-initialised. */
struct record_list {
    size_t count;
    json_t *items;
    struct buffer lines;
};

/* Starts another line for people; the caller appends the text to the returned buffer. */
struct buffer *record_list_line(struct record_list *list);

/* Adds an item to the JSON array, and takes ownership of it. */
void record_list_push(struct record_list *list, json_t *item);
void record_list_add(struct cli *cli, struct record_list *list, const struct field *record,
                     const void *value, const char *text);
void record_list_release(struct record_list *list);

#endif
