/* SPDX-License-Identifier: Apache-2.0 */
/* index.h: indexes that keep the latest record of each key. Any number of writers can put records;
 * each record becomes a small object in an inbox. Any number of workers can compile inboxes into
 * shards. Readers see both at any time, and never wait for a compile.
 *
 *     static const char *const fields[] = { "host", "owner", "seen" };
 *     struct hf_index_options options = HF_INDEX_OPTIONS;
 *     options.fields = fields, options.field_count = 3;
 *     options.key = "host", options.time = "seen";
 *     hf_index_create(client, "hosts", &options, NULL, &index, &error);
 *
 *     const struct hf_index_value values[] = { { "host", "a.example" }, { "owner", "ada" } };
 *     hf_index_put(index, values, 2, &error);         the time defaults to now
 *     hf_index_compile(index, NULL, NULL, &error);
 *     if (hf_index_get(index, "a.example", &record, &error) == HF_OK)
 *         puts(hf_index_record_value(record, "owner", NULL));
 *     hf_index_record_free(record);
 *     hf_index_close(index);
 *
 * WHAT AN INDEX GUARANTEES. A record is durable once its put has returned HF_OK, and every reader
 * sees it from then on. For each key, the index keeps the record with the latest time; if times are
 * equal, it keeps the record that is greatest in byte order. The order of arrival and the clocks of
 * the machines do not matter, and putting a record twice has the same effect as putting it once.
 * The one exception is a record that is older than a deletion that its shard has dropped, which
 * happens after a week; see hf_index_delete. Reads and puts never wait for a compile, which only
 * makes reads cheaper. An entry that cannot be read is set aside with the reason, and never
 * dropped. A damaged shard does not affect the others.
 *
 * RECORDS are lists of fields, in the order that the index defines. In byte form, fields are
 * separated by 0x1F. ESC, 0x1C to 0x1F, LF and NUL within a value are escaped as ESC followed by
 * the byte plus 0x40. Values are UTF-8. A record is at most 1 MiB long, and a key at most 1024
 * bytes. Times are RFC 3339 with a time zone, or seconds, milliseconds, microseconds or nanoseconds
 * since 1970, distinguished by their magnitude. An index can be created with a time zone for times
 * that have none.
 *
 * THREADS. Any number of threads may use a struct hf_index concurrently, but only one thread at a
 * time may use a cursor or a record. Cursors and records stay valid after their index is closed,
 * and must be freed. */
#ifndef HOLDFAST_INDEX_H
#define HOLDFAST_INDEX_H

#include "holdfast/base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hf_index;
struct hf_index_cursor;
struct hf_index_record;

/* ---- Creating and opening ------------------------------------------------------------ */

#define HF_INDEX_DIGITS_MAX 4

struct hf_index_options {
    size_t struct_size;
    const char *const *fields; /* the names of the fields, in order: a-z A-Z 0-9 . _ - */
    size_t field_count;
    const char *key;  /* the field that holds the record's key */
    const char *time; /* the field that holds the record's timestamp */
    /* 1 to 4: the index has 16, 256, 4096 or 65536 shards. This never changes. 0: as in the
     * existing index, or 2 for a new index. */
    unsigned digits;
    /* Do not accept entries that other programs write directly into the store; false: as in the
     * existing index, or accept such entries in a new index. */
    bool no_foreign;
    /* The time zone of times that have none: "UTC", or an offset such as "+02:00". This never
     * changes. NULL: as in the existing index; a new index refuses such times. Versions of Holdfast
     * before this option refuse to use an index with a time zone. */
    const char *zone;
    /* Write shards as bare records, each followed by LF and nothing else, so that other programs
     * can read them, and rewrite them on condition of their ETags. What else Holdfast knows about
     * a shard, deletions included, is in an object beside it. A shard is then at most 256 MiB, and
     * a compile reads it again before it deletes entries. A shard that has deletions, or that
     * another program wrote, is read whole. This never changes. false: as in the existing index; a
     * new index has a header line in each shard, and its shards are cheaper to read. Versions of
     * Holdfast before this option refuse to use an index with plain shards. */
    bool plain;
};
#define HF_INDEX_OPTIONS                                                                 \
    HF_VALUE_(hf_index_options, sizeof(struct hf_index_options), NULL, 0, NULL, NULL, 0, \
              false, NULL, false)

/* The result of hf_index_create. Each row: constant, name. */
#define HF_INDEX_MADE_TABLE(ROW) \
    ROW(CREATED, "created")      \
    ROW(EXTENDED, "extended")    \
    ROW(UNCHANGED, "unchanged")
#define HF_INDEX_MADE_ENUM_(name, word) HF_INDEX_##name,
enum hf_index_made { HF_INDEX_MADE_TABLE(HF_INDEX_MADE_ENUM_) HF_INDEX_MADE_COUNT };
#undef HF_INDEX_MADE_ENUM_
HF_API const char *hf_index_made_name(enum hf_index_made made);

/* Creates an index and opens it. An existing index with the same fields is left as it is. If you
 * add fields after the existing ones, the index is extended; the new fields are empty in older
 * records. Fields are never removed, moved or renamed. `ret_made` may be NULL.
 *
 * Returns HF_OK if the index exists as described. Returns HF_INVALID if the fields are not valid,
 * or if the existing index differs; the error describes the difference. Returns HF_CONFLICT if
 * other clients keep changing the index. Returns HF_UNSURE if the store did not reply; calling
 * again does no harm. Other statuses come from the store. */
HF_API enum hf_status hf_index_create(struct hf_client *client, const char *name,
                                      const struct hf_index_options *options,
                                      enum hf_index_made *ret_made, struct hf_index **ret_index,
                                      struct hf_error *error);

/* Opens an index. Returns HF_NOT_FOUND if there is no index with this name, and HF_INVALID if the
 * name is not valid. Returns HF_CORRUPT if the description of the index is damaged, and
 * HF_UNSUPPORTED if a later version wrote it. */
HF_API enum hf_status hf_index_open(struct hf_client *client, const char *name,
                                    struct hf_index **ret_index, struct hf_error *error);

/* Closes an index. Does nothing if `index` is NULL. */
HF_API void hf_index_close(struct hf_index *index);

/* Lists the names of the indexes in a store, in name order. Return false from `each` to stop. */
HF_API enum hf_status hf_index_list(struct hf_client *client,
                                    bool (*each)(void *argument, const char *name),
                                    void *argument, struct hf_error *error);

/* Describes an index as this handle knows it. Other clients may have added fields since; the handle
 * notices this when it reads a record or a shard that has them. Local. */
struct hf_index_info {
    size_t struct_size;
    size_t field_count;
    size_t key, time; /* field numbers, from 0 */
    size_t version;   /* increases by one whenever fields are added */
    unsigned digits;
    size_t shards; /* the number of possible shards */
    bool foreign;  /* accepts entries from other programs */
    char zone[8];  /* of times without a time zone: "UTC" or "+02:00"; "" if there is none */
    bool plain;    /* shards are bare records */
};
#define HF_INDEX_INFO                                                                      \
    HF_VALUE_(hf_index_info, sizeof(struct hf_index_info), 0, 0, 0, 0, 0, 0, false, { 0 }, \
              false)
HF_API enum hf_status hf_index_describe(struct hf_index *index, struct hf_index_info *info,
                                        struct hf_error *error);

/* Returns the name of a field, or NULL if the index has fewer fields. The name is valid as long as
 * the handle. Local. */
HF_API const char *hf_index_field_name(struct hf_index *index, size_t field);

/* Returns the number of a field. Returns HF_INVALID if the field does not exist; the error lists
 * the fields and suggests the closest name. Local. */
HF_API enum hf_status hf_index_find_field(struct hf_index *index, const char *name,
                                          size_t *ret_field, struct hf_error *error);

/* ---- Writing ------------------------------------------------------------------------- */

/* The value of a field. A value that contains a NUL byte can be put only as part of a record in
 * byte form. */
struct hf_index_value {
    const char *field;
    const char *value;
};

/* The values of one record, in any order. Omitted fields are empty. An omitted time is the current
 * time: the wall clock of this machine, in microseconds. */
struct hf_index_row {
    const struct hf_index_value *values;
    size_t count;
};

/* A record in byte form, with nothing after its last field. */
struct hf_index_bytes {
    const void *data;
    size_t size;
};

/* Puts one record, several records, or several records in byte form. Each record becomes an entry
 * in the inbox.
 *
 * Returns HF_OK if all records are durable; every reader sees them from now on. Returns HF_INVALID,
 * and puts nothing, if a row is not a record, names an unknown field, or names a field twice.
 * *ret_bad is the number of the first such row; `ret_bad` may be NULL. Returns HF_UNSURE if some
 * records may be stored, or may still arrive; putting them again does no harm. Other statuses come
 * from the store; if there are several records, the first ones may have been stored. */
HF_API enum hf_status hf_index_put(struct hf_index *index, const struct hf_index_value *values,
                                   size_t count, struct hf_error *error);
HF_API enum hf_status hf_index_put_many(struct hf_index *index, const struct hf_index_row *rows,
                                        size_t count, size_t *ret_bad, struct hf_error *error);
HF_API enum hf_status hf_index_put_records(struct hf_index *index,
                                           const struct hf_index_bytes *records, size_t count,
                                           size_t *ret_bad, struct hf_error *error);

/* Deletes keys as of a time: RFC 3339 with a time zone, or a number since 1970; NULL: now, by the
 * wall clock of this machine. A deletion counts like a record: of a deletion and a record of the
 * same key, the one with the later time wins, in whatever order they arrive. So a record with a
 * later time stays, and a later put brings the key back. A key that has no record can be deleted
 * too; records of it that are older then have no effect when they arrive.
 *
 * A compile drops deletions after some time (keep_deleted_ms). From then on, a record that is
 * older than a dropped deletion of its shard, and whose key has no record, is not accepted:
 * readers do not see it, and a compile sets it aside.
 *
 * The first deletion changes the format of the index: versions of Holdfast that do not know
 * deletions refuse to use it from then on.
 *
 * Returns HF_OK if all deletions are durable; every reader obeys them from now on. Returns
 * HF_INVALID, and deletes nothing, if the time or a key is not valid; *ret_bad is the number of
 * the first such key, and `ret_bad` may be NULL. Returns HF_UNSURE if some deletions may be
 * stored, or may still arrive; deleting again does no harm. Other statuses come from the store;
 * the first keys may have been deleted. */
HF_API enum hf_status hf_index_delete(struct hf_index *index, const char *const *keys,
                                      size_t key_count, const char *time, size_t *ret_bad,
                                      struct hf_error *error);

/* ---- Files of records ---------------------------------------------------------------- */

/* File formats. Each row: constant, name, file suffixes. csv and tsv files start with a header that
 * names the fields in any order, and are quoted as in RFC 4180. ndjson files contain one JSON
 * object per line, with fields by name. usv files contain records in byte form, each followed by
 * LF; on input, 0x1E or 0x1E LF is also accepted. */
#define HF_INDEX_FORMAT_TABLE(ROW) \
    ROW(USV, "usv", ".usv")        \
    ROW(CSV, "csv", ".csv")        \
    ROW(TSV, "tsv", ".tsv")        \
    ROW(NDJSON, "ndjson", ".ndjson .jsonl")
#define HF_INDEX_FORMAT_ENUM_(name, word, ends) HF_INDEX_##name,
enum hf_index_format { HF_INDEX_FORMAT_TABLE(HF_INDEX_FORMAT_ENUM_) HF_INDEX_FORMAT_COUNT };
#undef HF_INDEX_FORMAT_ENUM_

/* Returns the name of a format, such as "ndjson". */
HF_API const char *hf_index_format_name(enum hf_index_format format);

/* Determines the format from the suffix of a file name, as in "domains.csv". Returns false if the
 * suffix is unknown. */
HF_API bool hf_index_format_of_path(const char *path, enum hf_index_format *ret_format);

struct hf_index_load_report {
    size_t struct_size;
    uint64_t records;    /* durable records, in shards and in the inbox */
    uint64_t straight;   /* of these, written directly into shards */
    uint64_t held;       /* put into the inbox: another client is compiling the shard */
    uint64_t few;        /* put into the inbox: fewer than 8 at a time for one shard */
    uint64_t damaged;    /* put into the inbox: the shard cannot be written */
    uint64_t shards;     /* shards written directly */
    uint64_t refused;    /* rows that are not records, skipped */
    uint64_t up_to_line; /* all rows up to this line are stored or were refused */
    uint64_t bytes_read;
    bool complete; /* the whole file was read, and all its records are stored */
};
#define HF_INDEX_LOAD_REPORT                                                                  \
    HF_VALUE_(hf_index_load_report, sizeof(struct hf_index_load_report), 0, 0, 0, 0, 0, 0, 0, \
              0, 0, false)

struct hf_index_load_options {
    size_t struct_size;
    /* Write large loads directly into shards, under their locks, instead of the inbox. */
    bool straight;
    /* How long to wait for a shard that another client is compiling. After that, its records go
     * into the inbox. */
    int64_t wait_ms;

    /* Each is optional. `progress` is called between requests, and when a signal interrupts a read;
     * return false to stop with HF_CANCELLED. `refused` is called for each row that is not a
     * record, with the number of its first line. `trouble` is called for each damaged shard. */
    bool (*progress)(void *argument, const struct hf_index_load_report *so_far);
    void (*refused)(void *argument, uint64_t line, const struct hf_error *why);
    void (*trouble)(void *argument, const struct hf_error *why);
    void *argument;
};
#define HF_INDEX_LOAD_OPTIONS                                                                  \
    HF_VALUE_(hf_index_load_options, sizeof(struct hf_index_load_options), false, 60000, NULL, \
              NULL, NULL, NULL)

/* Puts all rows of a file, from its current offset to its end, in bounded memory. The file may be a
 * pipe; its rows are then put as they arrive. `options` and `report` may be NULL; the report is set
 * regardless of the status. If the load fails, rows that were already put remain, and putting them
 * again does no harm.
 *
 * Returns HF_OK if all rows are stored. Returns HF_INVALID if some rows were refused and all others
 * are stored, or if the header is wrong and nothing is stored. Returns HF_CORRUPT or HF_UNSUPPORTED
 * if all rows are stored, but some are in the inbox of damaged shards. Returns HF_CANCELLED if
 * `progress` stopped the load. Other statuses come from the store or the file; in that case, all
 * rows up to report->up_to_line have been processed. */
HF_API enum hf_status hf_index_load(struct hf_index *index, int fd, enum hf_index_format format,
                                    const struct hf_index_load_options *options,
                                    struct hf_index_load_report *report,
                                    struct hf_error *error);

/* ---- Reading ------------------------------------------------------------------------- */

/* Reads the record of a key. Free it with hf_index_record_free. Returns HF_NOT_FOUND if the key has
 * no record.
 *
 * The index keeps the parts of shards that it has read, up to 16 MiB in all, and uses them only
 * after the store has confirmed that the shard is unchanged. A get from such a shard takes a
 * listing of its inbox, and one conditional read that returns nothing. */
HF_API enum hf_status hf_index_get(struct hf_index *index, const char *key,
                                   struct hf_index_record **ret_record, struct hf_error *error);
HF_API void hf_index_record_free(struct hf_index_record *record);

/* Reads the records of many keys in one pass, in bounded memory. The inbox of each shard is listed
 * at most once, and no part of a shard is read twice unless the shard is replaced meanwhile. `each`
 * is called exactly once per key, in any order. `number` is the position of the key in `keys`. If
 * the key has a record, why->status is HF_OK; the record is valid until `each` returns. Otherwise,
 * `record` is NULL, and `why` says why: HF_NOT_FOUND if the key has no record, or the status of its
 * shard, which could not be read. Return false to stop with HF_CANCELLED.
 *
 * Returns HF_OK if every key has a record. Otherwise returns the status of the first shard that
 * could not be read or, if there is none, HF_NOT_FOUND. */
HF_API enum hf_status hf_index_get_many(struct hf_index *index, const char *const *keys,
                                        size_t key_count,
                                        bool (*each)(void *argument, size_t number,
                                                     struct hf_index_record *record,
                                                     const struct hf_error *why),
                                        void *argument, struct hf_error *error);

/* Returns the value of a field. The value is NUL-terminated and may contain other NUL bytes;
 * `ret_size`, which may be NULL, receives its size. Returns "" if the record omits the field, and
 * NULL if the field does not exist or memory ran out. The value is valid as long as the record. */
HF_API const char *hf_index_record_value(struct hf_index_record *record, const char *field,
                                         size_t *ret_size);

/* Returns the record as one line of a file in this format, including the end of the line. Set
 * `first` for the first record of a file. The text is valid until the next call to this function
 * with the same record. Returns NULL if memory ran out. */
HF_API const char *hf_index_record_text(struct hf_index_record *record,
                                        enum hf_index_format format, bool first,
                                        size_t *ret_size);

/* Returns the start of a file in this format: for csv and tsv, the field names; otherwise, an empty
 * string. Free it with hf_free. Local. */
HF_API enum hf_status hf_index_header(struct hf_index *index, enum hf_index_format format,
                                      char **ret_text, struct hf_error *error);

/* A condition on one field. Values are compared as bytes. */
struct hf_index_condition {
    const char *field;
    const char *value;
    bool differs; /* the value must not be equal */
};

struct hf_index_progress {
    size_t struct_size;
    uint64_t shards_read, shards_total;
    uint64_t records;    /* records that match the query */
    uint64_t pending;    /* entries in the inbox that were examined */
    uint64_t unreadable; /* unreadable entries, skipped; a compile will set them aside */
};
#define HF_INDEX_PROGRESS \
    HF_VALUE_(hf_index_progress, sizeof(struct hf_index_progress), 0, 0, 0, 0, 0)

/* A query. A record matches if all conditions hold, those of `where` and those of `filters`.
 *
 * A filter is a condition as text: FIELD OP VALUE, such as "size >= 10", where OP is one of = != <
 * <= > >= ~. Blanks before OP, and then also those after it, are ignored; otherwise everything
 * after OP is the value. The time field is compared as an instant. Otherwise, if the field and the
 * value are both numbers as in JSON, they are compared as numbers, exactly; if not, as bytes. With
 * ~, the value is a pattern of at most 256 bytes that the whole field must match: * stands for any
 * characters, ? for one character, and \ makes the next character literal.
 *
 * `sort` is FIELD[:number][:desc]. The time field is sorted as instants; other fields are sorted
 * as bytes or, with :number, as numbers, followed by the values that are not numbers. Only the
 * first 1024 bytes of a value count. Records with equal values are sorted by key. A sorted cursor
 * reads all matching records before it returns the first one; up to 16 MiB of them are kept in
 * memory, and more in temporary files in $TMPDIR or /tmp. `sort` and `limit` apply only to
 * cursors. */
struct hf_index_query {
    size_t struct_size;
    const char *prefix; /* of the key; NULL: any */
    const char *since;  /* the earliest time; NULL: any */
    const struct hf_index_condition *where;
    size_t where_count; /* at most HF_INDEX_WHERE_MAX */
    const char *shard;  /* only this shard, such as "a3"; NULL: all */

    /* Each is optional. `progress` is called between shards; return false to stop with
     * HF_CANCELLED. `trouble` is called for each shard that cannot be read, but only by
     * hf_index_count and hf_index_export. */
    bool (*progress)(void *argument, const struct hf_index_progress *so_far);
    void (*trouble)(void *argument, const struct hf_error *why);
    void *argument;

    const char *const *filters;
    size_t filter_count; /* together with where_count at most HF_INDEX_WHERE_MAX */
    const char *sort;    /* NULL: shard by shard, sorted by key within a shard */
    uint64_t limit;      /* return at most this many records; 0: all */
};
#define HF_INDEX_WHERE_MAX 32
#define HF_INDEX_QUERY                                                                        \
    HF_VALUE_(hf_index_query, sizeof(struct hf_index_query), NULL, NULL, NULL, 0, NULL, NULL, \
              NULL, NULL, NULL, 0, NULL, 0)

/* Opens a cursor over the records that match a query. The cursor returns each key once, shard by
 * shard, sorted by key within a shard. The cursor reads only the parts of a shard that can match,
 * in bounded memory. With `sort`, the records are in that order instead. `query` may be NULL, which
 * matches all records. The query is copied. Returns HF_INVALID for an unknown field, or an invalid
 * time, shard, filter or sort order. */
HF_API enum hf_status hf_index_cursor_open(struct hf_index *index,
                                           const struct hf_index_query *query,
                                           struct hf_index_cursor **ret_cursor,
                                           struct hf_error *error);

/* Returns the next record. It is valid until the next call with this cursor; do not free it.
 *
 * Returns HF_NOT_FOUND after the last record. Returns HF_CANCELLED if `progress` stopped the
 * cursor; no more records follow. Any other status means that a shard could not be read completely:
 * call again to continue with the next shard. After three consecutive store failures, the cursor
 * stops, and the next call returns HF_NOT_FOUND. */
HF_API enum hf_status hf_index_cursor_next(struct hf_index_cursor *cursor,
                                           struct hf_index_record **ret_record,
                                           struct hf_error *error);

/* Reports the progress of a cursor. Local. */
HF_API enum hf_status hf_index_cursor_progress(struct hf_index_cursor *cursor,
                                               struct hf_index_progress *progress,
                                               struct hf_error *error);

/* Closes a cursor. Does nothing if `cursor` is NULL. */
HF_API void hf_index_cursor_close(struct hf_index_cursor *cursor);

/* Returns the exact number of keys that match a query. `query` may be NULL; the call then reads
 * only the first line of shards without entries in the inbox. Shards that cannot be read are
 * skipped and reported to `trouble`, and the call returns the status of the first such shard.
 * Returns HF_CANCELLED if `progress` stopped the count. */
HF_API enum hf_status hf_index_count(struct hf_index *index, const struct hf_index_query *query,
                                     uint64_t *ret_count, struct hf_error *error);

/* Writes all records that match a query to a file. Loading the file with hf_index_load restores the
 * same records. `query` and `progress` may be NULL; `progress` is set regardless of the status. If
 * a write to the file fails, the call ends with the status of that write. Otherwise like
 * hf_index_count. */
HF_API enum hf_status hf_index_export(struct hf_index *index,
                                      const struct hf_index_query *query, int fd,
                                      enum hf_index_format format,
                                      struct hf_index_progress *progress,
                                      struct hf_error *error);

/* ---- Compiling ----------------------------------------------------------------------- */

/* The result of compiling a shard. Each row: constant, name, description. */
#define HF_INDEX_END_TABLE(ROW)                                             \
    ROW(DONE, "done", "all its entries were folded or set aside")           \
    ROW(NOTHING, "nothing", "it had no entries, or they have been deleted") \
    ROW(HELD, "held", "another client is compiling it")                     \
    ROW(LOST, "lost", "another client wrote it, or the lease had ended")    \
    ROW(FAILED, "failed", "it could not be compiled; the error says why")   \
    ROW(STOPPED, "stopped", "the caller stopped it")
#define HF_INDEX_END_ENUM_(name, word, text) HF_INDEX_END_##name,
enum hf_index_end { HF_INDEX_END_TABLE(HF_INDEX_END_ENUM_) HF_INDEX_END_COUNT };
#undef HF_INDEX_END_ENUM_
HF_API const char *hf_index_end_name(enum hf_index_end end);

/* The work done, on one shard or on all shards. */
struct hf_index_folded {
    uint64_t entries;       /* entries read */
    uint64_t records_new;   /* keys new to the shard */
    uint64_t records_later; /* records that replaced an older one */
    uint64_t superseded;    /* records not later than the existing one */
    uint64_t aside;         /* unreadable entries, set aside */
    uint64_t deleted;       /* entries deleted */
    uint64_t marked;        /* entries emptied, because other programs own their names */
    uint64_t newer;         /* entries kept, because their owners have written them again */
    uint64_t left;          /* entries that could not be deleted yet */
};

struct hf_index_shard {
    size_t struct_size;
    const char *shard; /* such as "a3" */
    enum hf_index_end end;
    /* The reason for held, lost and failed. For done, the first problem that occurred; the status
     * is HF_OK if there was no problem. */
    const struct hf_error *why;
    uint64_t token;
    struct hf_index_folded folded;
    uint64_t writes;         /* writes of the shard by this compile */
    uint64_t records, bytes; /* of the shard after these writes */
    /* Why the first entry was set aside; "" if no entry was set aside. */
    const char *first_aside;
    uint64_t keys_deleted;      /* deletions that were merged into shards and took effect */
    uint64_t deletions_dropped; /* deletions that the shard no longer needs */
};

struct hf_index_compile_options {
    size_t struct_size;
    bool watch;        /* run until stopped; otherwise compile each shard with entries once */
    const char *shard; /* only this shard; NULL: all */
    int64_t ttl_ms;    /* of the shard locks, which are renewed: 1 s to 5 minutes */
    /* Without `watch`: how long to retry shards that other clients hold, because these clients may
     * be dead. Use a little more than the ttl. */
    int64_t wait_ms;
    /* With `watch`: how often to check for work; 0: depends on the kind of store. */
    int64_t poll_ms;

    /* Each is optional. `go_on` is called before each step, and every 50 ms while waiting; return
     * false to stop. `shard_done` is called for each shard. `trouble` is called if the store cannot
     * be used at the moment; with `watch`, the compile continues. */
    bool (*go_on)(void *argument);
    void (*shard_done)(void *argument, const struct hf_index_shard *shard);
    void (*trouble)(void *argument, const struct hf_error *why);
    void *argument;

    /* How long a deletion is kept in its shard, at least; 0: 7 days. Not less than twice the time
     * after which an abandoned request can still take effect (48 hours), or three times if shards
     * are plain (72 hours). */
    int64_t keep_deleted_ms;
};
#define HF_INDEX_COMPILE_OPTIONS                                                              \
    HF_VALUE_(hf_index_compile_options, sizeof(struct hf_index_compile_options), false, NULL, \
              60000, 90000, 0, NULL, NULL, NULL, NULL, 0)

struct hf_index_compile_report {
    size_t struct_size;
    uint64_t shards_done, shards_held, shards_lost, shards_failed;
    struct hf_index_folded folded;
    uint64_t keys_deleted;      /* deletions that were folded and took effect */
    uint64_t deletions_dropped; /* deletions that their shards no longer need */
};
#define HF_INDEX_COMPILE_REPORT                                                            \
    HF_VALUE_(hf_index_compile_report, sizeof(struct hf_index_compile_report), 0, 0, 0, 0, \
              { 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 0, 0)

/* Compiles the inbox into shards. Any number of workers may compile, on any machine, at any time:
 * each takes a shard that no other worker holds. `options` and `report` may be NULL; the report is
 * set regardless of the status.
 *
 * Returns HF_OK if every shard with entries was compiled, or if other clients still held shards
 * after wait_ms (see the report). With `watch`, also returns HF_OK when stopped. Without `watch`,
 * returns HF_CANCELLED if stopped before all shards were done. Returns HF_HELD if `shard` names a
 * shard that another client is compiling. Any other status comes from the first shard that
 * failed. */
HF_API enum hf_status hf_index_compile(struct hf_index *index,
                                       const struct hf_index_compile_options *options,
                                       struct hf_index_compile_report *report,
                                       struct hf_error *error);

/* ---- Dropping ------------------------------------------------------------------------ */

struct hf_index_drop_options {
    size_t struct_size;
    bool dry_run; /* only report what would be deleted */
    /* Optional. Called between two steps. Return false to stop with HF_CANCELLED; call again to
     * continue. */
    bool (*progress)(void *argument);
    void *argument;
};
#define HF_INDEX_DROP_OPTIONS \
    HF_VALUE_(hf_index_drop_options, sizeof(struct hf_index_drop_options), false, NULL, NULL)

struct hf_index_drop_report {
    size_t struct_size;
    bool marked;             /* the drop has begun */
    bool gone;               /* nothing is left, and the name can be used again */
    uint64_t objects, bytes; /* found by this call, without the description of the index */
    uint64_t deleted;        /* objects that this call deleted */
    int64_t wait_ms;         /* after this time, another call can finish the drop */
};
#define HF_INDEX_DROP_REPORT                                                                 \
    HF_VALUE_(hf_index_drop_report, sizeof(struct hf_index_drop_report), false, false, 0, 0, \
              0, 0)

/* Removes an index with its records, its inbox and everything else. The first call marks the
 * index: from then on, no client can open it, and clients that have opened it can no longer write
 * after a minute. All its objects are deleted. Entries that were on their way may still arrive, so
 * the mark stays for about a day (wait_ms). A call after that deletes the rest, and only then the
 * name can be used again. This cannot be undone. `options` and `report` may be NULL; the report is
 * set regardless of the status.
 *
 * Returns HF_OK if the index is marked, or with `dry_run` if it could be; report.gone tells
 * whether anything is left. Returns HF_NOT_FOUND if the index does not exist, HF_CONFLICT if other
 * clients have dropped it and created it anew meanwhile, HF_CANCELLED if `progress` stopped the
 * call, and HF_CORRUPT or HF_UNSUPPORTED if the description of the index
 * cannot be read: then nothing is deleted. Other statuses come from the store; call again to
 * continue. */
HF_API enum hf_status hf_index_drop(struct hf_client *client, const char *name,
                                    const struct hf_index_drop_options *options,
                                    struct hf_index_drop_report *report,
                                    struct hf_error *error);

/* ---- Status -------------------------------------------------------------------------- */

/* The status of an index. Times are in milliseconds since 1970. */
struct hf_index_stats {
    size_t struct_size;
    uint64_t entries;         /* waiting in the inbox */
    uint64_t entries_foreign; /* those from other programs */
    uint64_t entry_bytes;
    uint64_t markers; /* empty objects that other programs put into the inbox */
    uint64_t strays;  /* objects in the inbox that are not entries */
    uint64_t shards_waiting;
    /* When the oldest entry was written, by the store's clock; -1: unknown. */
    int64_t oldest_ms;
    uint64_t shards;
    uint64_t shard_bytes, shard_bytes_max;
    char largest[8]; /* the largest shard; "" if there is no shard */
    int64_t records; /* in shards, as last counted; -1: never counted */
    int64_t records_at_ms;
    uint64_t holder_count; /* shards being compiled */
    uint64_t locks_unreadable;
    uint64_t aside;    /* entries that were set aside */
    int64_t deletions; /* in shards, as last counted; -1: never counted */
};
#define HF_INDEX_STATS                                                                     \
    HF_VALUE_(hf_index_stats, sizeof(struct hf_index_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
              { 0 }, 0, 0, 0, 0, 0, 0)

/* A client that is compiling a shard. */
struct hf_index_holder {
    size_t struct_size;
    const char *shard;
    const char *holder;
    uint64_t token;
    bool over;                      /* the lease has provably ended: any client may take over */
    int64_t created_ms, expires_ms; /* for display only */
};

struct hf_index_status_options {
    size_t struct_size;

    /* Each is optional. `progress` is called with the number of entries counted so far; return
     * false to stop with HF_CANCELLED. `holder` is called for each of the first 256 holders.
     * `aside` is called for each of the first 8 entries that were set aside, with the reason.
     * If `holder` or `aside` returns false, it is not called again. */
    bool (*progress)(void *argument, uint64_t entries);
    bool (*holder)(void *argument, const struct hf_index_holder *holder);
    bool (*aside)(void *argument, const char *entry, const char *why);
    void *argument;
};
#define HF_INDEX_STATUS_OPTIONS                                                            \
    HF_VALUE_(hf_index_status_options, sizeof(struct hf_index_status_options), NULL, NULL, \
              NULL, NULL)

/* Reports the status of an index. Changes nothing. `options` may be NULL. Error statuses come from
 * the store. */
HF_API enum hf_status hf_index_status(struct hf_index *index,
                                      const struct hf_index_status_options *options,
                                      struct hf_index_stats *ret_stats, struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
