/* index.h: an index keeps the latest record of each key. Any number of writers put records, each a
 * small object in an inbox; any number of workers compile inboxes into shards; readers see both at
 * any time, and nobody waits for a compile.
 *
 *     static const char *const fields[] = { "host", "owner", "seen" };
 *     struct hf_index_options options = HF_INDEX_OPTIONS;
 *     options.fields = fields, options.field_count = 3;
 *     options.key = "host", options.time = "seen";
 *     hf_index_create(client, "hosts", &options, NULL, &index, &error);
 *
 *     const struct hf_index_value values[] = { { "host", "a.example" }, { "owner", "ada" } };
 *     hf_index_put(index, values, 2, &error);         the time left out: now
 *     hf_index_compile(index, NULL, NULL, &error);
 *     if (hf_index_get(index, "a.example", &record, &error) == HF_OK)
 *         puts(hf_index_record_value(record, "owner", NULL));
 *     hf_index_record_free(record);
 *     hf_index_close(index);
 *
 * WHAT IT PROMISES. A record whose put was OK is durable, and every reader sees it from then on. Of
 * each key the record with the latest time counts, of equal times the one with the greater bytes:
 * no order of arrival and no clock of a machine changes that, and to put a record twice is to put
 * it once. Reading and putting never wait for a compile; compiling makes reading cheap. What cannot
 * be read is set aside with the reason, never dropped; a shard that is damaged stops itself alone.
 *
 * RECORDS are fields, in the order of the index. As bytes they have 0x1F between two fields; ESC,
 * 0x1C to 0x1F, LF and NUL within a value are written as ESC and the byte 0x40 above. Values are
 * UTF-8; a record has at most 1 MiB, a key at most 1024 bytes. Times are RFC 3339 with a zone, or
 * seconds, milli-, micro- or nanoseconds since 1970, told apart by their size.
 *
 * THREADS. A struct hf_index may be used by any number of threads at once; a cursor and a record by
 * one at a time. Both live on when their index is closed, and must be freed. */
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
    const char *const *fields; /* the names of its fields, in order: a-z A-Z 0-9 . _ - */
    size_t field_count;
    const char *key;  /* the field by which records are found */
    const char *time; /* the field that says when */
    unsigned
        digits; /* 1 to 4: it is cut into 16, 256, 4096 or 65536 shards, which never changes;
                         0: as in the index that is there, or 2 */
    bool no_foreign; /* take no entries that other programs write into the store by themselves;
                         false: as in the index that is there, or take them */
};
#define HF_INDEX_OPTIONS \
    HF_VALUE_(hf_index_options, sizeof(struct hf_index_options), NULL, 0, NULL, NULL, 0, false)

/* What came of hf_index_create; the name in lower case is what --json says. */
#define HF_INDEX_MADE_TABLE(ROW) \
    ROW(CREATED, "created")      \
    ROW(EXTENDED, "extended")    \
    ROW(UNCHANGED, "unchanged")
#define HF_INDEX_MADE_ENUM_(name, word) HF_INDEX_##name,
enum hf_index_made { HF_INDEX_MADE_TABLE(HF_INDEX_MADE_ENUM_) HF_INDEX_MADE_COUNT };
#undef HF_INDEX_MADE_ENUM_
HF_API const char *hf_index_made_name(enum hf_index_made made);

/* Creates an index and opens it. One that is there with the same fields is left as it is; with more
 * fields behind those it has, it is extended: older records have them empty. Fields are never taken
 * away, moved or renamed. `ret_made` may be NULL.
 *   OK        it is there as described
 *   INVALID   the names make no index, or the one that is there differs: the reason says in what
 *   CONFLICT  somebody else changes it just now, again and again
 *   UNSURE    no answer: call again, which does no harm
 *   others    the store's */
HF_API enum hf_status hf_index_create(struct hf_client *client, const char *name,
                                      const struct hf_index_options *options,
                                      enum hf_index_made *ret_made, struct hf_index **ret_index,
                                      struct hf_error *error);

/* NOT_FOUND: there is none of this name. INVALID: it cannot be a name. CORRUPT, UNSUPPORTED: what
 * describes it is damaged, or of a later version. */
HF_API enum hf_status hf_index_open(struct hf_client *client, const char *name,
                                    struct hf_index **ret_index, struct hf_error *error);

/* NULL is fine. */
HF_API void hf_index_close(struct hf_index *index);

/* The names of the indexes of a store, in order. `each` returns false to stop, which is OK. */
HF_API enum hf_status hf_index_list(struct hf_client *client,
                                    bool (*each)(void *argument, const char *name),
                                    void *argument, struct hf_error *error);

/* An index as this handle knows it: others may have added fields since, which is noticed when a
 * record or a shard has them. Local. */
struct hf_index_info {
    size_t struct_size;
    size_t field_count;
    size_t key, time; /* which fields they are, counted from 0 */
    size_t version;   /* rises by one whenever fields are added */
    unsigned digits;
    size_t shards; /* that there can be */
    bool foreign;  /* it takes entries of other programs */
};
#define HF_INDEX_INFO \
    HF_VALUE_(hf_index_info, sizeof(struct hf_index_info), 0, 0, 0, 0, 0, 0, false)
HF_API enum hf_status hf_index_describe(struct hf_index *index, struct hf_index_info *info,
                                        struct hf_error *error);

/* The name of a field; NULL: there are not that many. It lives as long as the handle. Local. */
HF_API const char *hf_index_field_name(struct hf_index *index, size_t field);

/* INVALID, with the names that there are and the one that was probably meant. Local. */
HF_API enum hf_status hf_index_find_field(struct hf_index *index, const char *name,
                                          size_t *ret_field, struct hf_error *error);

/* ---- Putting ------------------------------------------------------------------------- */

/* A value of a field. One with a NUL byte in it can be put as a record only. */
struct hf_index_value {
    const char *field;
    const char *value;
};

/* The values of one record, in any order; fields that are left out are empty, and the time is now:
 * the wall clock of this machine, in microseconds. */
struct hf_index_row {
    const struct hf_index_value *values;
    size_t count;
};

/* A record as bytes, without anything behind its last field. */
struct hf_index_bytes {
    const void *data;
    size_t size;
};

/* Put one record, many, or many as bytes; each becomes an entry of the inbox.
 *   OK        all are there, and durable: every reader sees them from now on
 *   INVALID   none was put: *ret_bad, which may be NULL, is the first that is no record, or has a
 *             field that the index has not, or one twice
 *   UNSURE    some may be there or not, and may still arrive; to put them again does no harm
 *   others    the store's; of many, those before may be there */
HF_API enum hf_status hf_index_put(struct hf_index *index, const struct hf_index_value *values,
                                   size_t count, struct hf_error *error);
HF_API enum hf_status hf_index_put_many(struct hf_index *index, const struct hf_index_row *rows,
                                        size_t count, size_t *ret_bad, struct hf_error *error);
HF_API enum hf_status hf_index_put_records(struct hf_index *index,
                                           const struct hf_index_bytes *records, size_t count,
                                           size_t *ret_bad, struct hf_error *error);

/* ---- Files of records ---------------------------------------------------------------- */

/* Each row: name, how the names of such files end. csv and tsv have a header that names the fields,
 * in any order, and quotes as in RFC 4180; ndjson has an object per line with fields by name; usv
 * has records as bytes, each followed by LF (0x1E, or both, when they are read). */
#define HF_INDEX_FORMAT_TABLE(ROW) \
    ROW(USV, "usv", ".usv")        \
    ROW(CSV, "csv", ".csv")        \
    ROW(TSV, "tsv", ".tsv")        \
    ROW(NDJSON, "ndjson", ".ndjson .jsonl")
#define HF_INDEX_FORMAT_ENUM_(name, word, ends) HF_INDEX_##name,
enum hf_index_format { HF_INDEX_FORMAT_TABLE(HF_INDEX_FORMAT_ENUM_) HF_INDEX_FORMAT_COUNT };
#undef HF_INDEX_FORMAT_ENUM_

/* "ndjson"; "" for a number that is no format. */
HF_API const char *hf_index_format_name(enum hf_index_format format);

/* The format that the end of a file's name tells, as in "domains.csv"; false when it tells none. */
HF_API bool hf_index_format_of_path(const char *path, enum hf_index_format *ret_format);

struct hf_index_load_report {
    size_t struct_size;
    uint64_t records;  /* that are there and durable ... */
    uint64_t straight; /* ... of which so many went straight into shards, ... */
    uint64_t held;     /* ... and by the inbox: since somebody else compiles their shard, ... */
    uint64_t few;      /* ... since it got fewer than 8 at once, ... */
    uint64_t damaged;  /* ... or since it cannot be written */
    uint64_t shards;   /* that were written straight */
    uint64_t refused;  /* rows that are no records: left out */
    uint64_t up_to_line; /* all rows up to this line are done, or were refused */
    uint64_t bytes_read;
    bool complete; /* the file was read to its end, and all its records are there */
};
#define HF_INDEX_LOAD_REPORT                                                                  \
    HF_VALUE_(hf_index_load_report, sizeof(struct hf_index_load_report), 0, 0, 0, 0, 0, 0, 0, \
              0, 0, false)

struct hf_index_load_options {
    size_t struct_size;
    bool straight;   /* into shards, under their locks, instead of the inbox: for large loads */
    int64_t wait_ms; /* for a shard that somebody compiles; then its records go by the inbox */

    /* Each may be NULL. `progress` is called between requests, and when a signal has interrupted a
     * read: false ends it, CANCELLED. `refused` is told of each row that is no record, with the
     * line on which it begins; `trouble` of each shard that is damaged. */
    bool (*progress)(void *argument, const struct hf_index_load_report *so_far);
    void (*refused)(void *argument, uint64_t line, const struct hf_error *why);
    void (*trouble)(void *argument, const struct hf_error *why);
    void *argument;
};
#define HF_INDEX_LOAD_OPTIONS                                                                  \
    HF_VALUE_(hf_index_load_options, sizeof(struct hf_index_load_options), false, 60000, NULL, \
              NULL, NULL, NULL)

/* Puts all rows of a file, which is read from where it stands to its end, in bounded memory; it may
 * be a pipe, whose rows are put as they come. `options` and `report` may be NULL; the report is
 * written whatever the status is. Rows that were put stay, and to put them again does no harm.
 *   OK         all are there
 *   INVALID    rows were refused, and all others put; or the header is wrong, and nothing was
 *   CORRUPT, UNSUPPORTED  all are there, some in the inbox of shards that are damaged
 *   CANCELLED  by `progress`
 *   others     the store's or the file's: all up to report->up_to_line is there */
HF_API enum hf_status hf_index_load(struct hf_index *index, int fd, enum hf_index_format format,
                                    const struct hf_index_load_options *options,
                                    struct hf_index_load_report *report,
                                    struct hf_error *error);

/* ---- Reading ------------------------------------------------------------------------- */

/* The record of a key: NOT_FOUND when there is none. To be freed. */
HF_API enum hf_status hf_index_get(struct hf_index *index, const char *key,
                                   struct hf_index_record **ret_record, struct hf_error *error);
HF_API void hf_index_record_free(struct hf_index_record *record);

/* The value of a field: text that ends with NUL and may hold others, so `ret_size` (may be NULL)
 * tells its size. "" when the record leaves it out; NULL when there is no such field, or no memory.
 * It lives as long as the record. */
HF_API const char *hf_index_record_value(struct hf_index_record *record, const char *field,
                                         size_t *ret_size);

/* The record as it is written in a file of this format, with the end of its line; `first`: it is
 * the first of the file. It lives until the next call of this function with this record. NULL
 * without memory. */
HF_API const char *hf_index_record_text(struct hf_index_record *record,
                                        enum hf_index_format format, bool first,
                                        size_t *ret_size);

/* What a file of this format begins with: the names of the fields for csv and tsv, else nothing.
 * Local. To be given back by hf_free. */
HF_API enum hf_status hf_index_header(struct hf_index *index, enum hf_index_format format,
                                      char **ret_text, struct hf_error *error);

/* Of one field, as text and byte by byte. */
struct hf_index_condition {
    const char *field;
    const char *value;
    bool differs; /* it must not be that one */
};

struct hf_index_progress {
    uint64_t shards_read, shards_total;
    uint64_t records;    /* that met the query */
    uint64_t pending;    /* entries of the inbox that were looked at */
    uint64_t unreadable; /* entries that a compiler will set aside: they are left out */
};

/* What is wanted: all conditions must be met. */
struct hf_index_query {
    size_t struct_size;
    const char *prefix; /* of the key; NULL: any */
    const char *since;  /* of this time or later; NULL: any */
    const struct hf_index_condition *where;
    size_t where_count; /* at most HF_INDEX_WHERE_MAX */
    const char *shard;  /* only this one, as in "a3"; NULL: all */

    /* Each may be NULL. `progress` is called between two shards: false ends it, CANCELLED.
     * `trouble` is told of each shard that cannot be read (count and export only). */
    bool (*progress)(void *argument, const struct hf_index_progress *so_far);
    void (*trouble)(void *argument, const struct hf_error *why);
    void *argument;
};
#define HF_INDEX_WHERE_MAX 32
#define HF_INDEX_QUERY                                                                        \
    HF_VALUE_(hf_index_query, sizeof(struct hf_index_query), NULL, NULL, NULL, 0, NULL, NULL, \
              NULL, NULL)

/* A cursor over the records that are wanted, shard by shard, within a shard in the order of their
 * keys; each key once. Of each shard only what can be wanted is read, and memory is bounded.
 * `query` may be NULL: all. What it points to is copied. INVALID: an unknown field, or a time or a
 * shard that is none. */
HF_API enum hf_status hf_index_cursor_open(struct hf_index *index,
                                           const struct hf_index_query *query,
                                           struct hf_index_cursor **ret_cursor,
                                           struct hf_error *error);

/* The next record, which lives until the next call with this cursor and must not be freed.
 *   OK         *ret_record is it
 *   NOT_FOUND  there are no more
 *   CANCELLED  by `progress`: there will be no more
 *   others     a shard could not be read, or not to its end: call again to go on with the next. A
 *              store that fails at three shards in a row is asked no more: then NOT_FOUND */
HF_API enum hf_status hf_index_cursor_next(struct hf_index_cursor *cursor,
                                           struct hf_index_record **ret_record,
                                           struct hf_error *error);

/* How far it has come. Local; all zero for NULL. */
HF_API struct hf_index_progress hf_index_cursor_progress(struct hf_index_cursor *cursor);

/* NULL is fine. */
HF_API void hf_index_cursor_close(struct hf_index_cursor *cursor);

/* How many keys are wanted: exact. `query` may be NULL; then of shards without entries in the inbox
 * only the first line is read. Shards that cannot be read are passed over and told to `trouble`;
 * the status is that of the first of them. CANCELLED by `progress`. */
HF_API enum hf_status hf_index_count(struct hf_index *index, const struct hf_index_query *query,
                                     uint64_t *ret_count, struct hf_error *error);

/* Writes all records that are wanted to a file, which hf_index_load reads back to the same records.
 * `query` and `progress` may be NULL; the latter is set whatever the status is. As hf_index_count;
 * a failed write ends it with the status of the file. */
HF_API enum hf_status hf_index_export(struct hf_index *index,
                                      const struct hf_index_query *query, int fd,
                                      enum hf_index_format format,
                                      struct hf_index_progress *progress,
                                      struct hf_error *error);

/* ---- Compiling ----------------------------------------------------------------------- */

/* How a shard came out of a compile. Each row: name, word, sentence. */
#define HF_INDEX_END_TABLE(ROW)                                           \
    ROW(DONE, "done", "all its entries are folded, or set aside")         \
    ROW(NOTHING, "nothing", "it had no entries, or they are gone by now") \
    ROW(HELD, "held", "somebody else compiles it")                        \
    ROW(LOST, "lost", "somebody else wrote it, or our lease was over")    \
    ROW(FAILED, "failed", "it could not be compiled: the error says why") \
    ROW(STOPPED, "stopped", "it was told to stop")
#define HF_INDEX_END_ENUM_(name, word, text) HF_INDEX_END_##name,
enum hf_index_end { HF_INDEX_END_TABLE(HF_INDEX_END_ENUM_) HF_INDEX_END_COUNT };
#undef HF_INDEX_END_ENUM_
HF_API const char *hf_index_end_name(enum hf_index_end end);

/* What was done, to one shard or to all. */
struct hf_index_folded {
    uint64_t entries;       /* read */
    uint64_t records_new;   /* keys that the shard had not */
    uint64_t records_later; /* that took the place of an older one */
    uint64_t superseded;    /* not later than what was there */
    uint64_t aside;         /* set aside, since they cannot be read */
    uint64_t deleted;       /* entries that were cleared away, ... */
    uint64_t marked; /* ... that became empty markers, since others own their names, ... */
    uint64_t newer;  /* ... that their owners have written again: left, ... */
    uint64_t left;   /* ... that could not be cleared yet */
};

struct hf_index_shard {
    const char *shard; /* "a3" */
    enum hf_index_end end;
    const struct hf_error
        *why; /* of held, lost and failed; of done the first trouble on the way;
                                   status OK: none */
    uint64_t token;
    struct hf_index_folded folded;
    uint64_t writes; /* of the shard, by this compile; and then it has: */
    uint64_t records, bytes;
    const char *first_aside; /* why the first of them was set aside; "": none was */
};

struct hf_index_compile_options {
    size_t struct_size;
    bool watch;        /* go on until stopped; else every shard that has entries, once */
    const char *shard; /* only this one; NULL: all */
    int64_t ttl_ms;    /* of the lock of a shard, which is renewed: 1 s to 5 minutes */
    int64_t wait_ms; /* without `watch`: go on so long with shards that others hold, who may be
                          dead; a little longer than the ttl, to be sure */
    int64_t
        poll_ms; /* with `watch`: look this often when there is nothing to do; 0: by the kind
                          of store */

    /* Each may be NULL. `go_on` is asked before each step, and every 50 ms while waiting: false
     * stops it. `shard_done` is told of each shard, `trouble` when a store cannot be used just now:
     * a watcher goes on. */
    bool (*go_on)(void *argument);
    void (*shard_done)(void *argument, const struct hf_index_shard *shard);
    void (*trouble)(void *argument, const struct hf_error *why);
    void *argument;
};
#define HF_INDEX_COMPILE_OPTIONS                                                              \
    HF_VALUE_(hf_index_compile_options, sizeof(struct hf_index_compile_options), false, NULL, \
              60000, 90000, 0, NULL, NULL, NULL, NULL)

struct hf_index_compile_report {
    size_t struct_size;
    uint64_t shards_done, shards_held, shards_lost, shards_failed;
    struct hf_index_folded folded;
};
#define HF_INDEX_COMPILE_REPORT                                                            \
    HF_VALUE_(hf_index_compile_report, sizeof(struct hf_index_compile_report), 0, 0, 0, 0, \
              { 0, 0, 0, 0, 0, 0, 0, 0, 0 })

/* Folds the inbox into shards. Any number of workers may, on any machine, at any time: each takes a
 * shard that nobody else has. `options` and `report` may be NULL; the report is written whatever
 * the status is.
 *   OK         all shards that had entries were done, or others hold them still after wait_ms: the
 *              report tells; or a watcher was stopped
 *   CANCELLED  stopped before all were done (not of a watcher)
 *   HELD       somebody else compiles the one shard that was asked for
 *   others     the first reason for which a shard failed */
HF_API enum hf_status hf_index_compile(struct hf_index *index,
                                       const struct hf_index_compile_options *options,
                                       struct hf_index_compile_report *report,
                                       struct hf_error *error);

/* ---- Status -------------------------------------------------------------------------- */

/* How an index is. Times are in milliseconds since 1970. */
struct hf_index_stats {
    size_t struct_size;
    uint64_t entries;         /* that wait in the inbox, ... */
    uint64_t entries_foreign; /* ... of other programs, ... */
    uint64_t entry_bytes;
    uint64_t markers; /* empty objects where entries of others were */
    uint64_t strays;  /* in the inbox, and no entries */
    uint64_t shards_waiting;
    int64_t
        oldest_ms; /* when the oldest entry was written, by the store's clock; -1: unknown */
    uint64_t shards;
    uint64_t shard_bytes, shard_bytes_max;
    char largest[8]; /* the shard of that size; "": none */
    int64_t records; /* in shards, as they were counted last; -1: nobody has yet */
    int64_t records_at_ms;
    uint64_t holder_count; /* shards that somebody compiles */
    uint64_t locks_unreadable;
    uint64_t aside; /* entries that were set aside */
};
#define HF_INDEX_STATS                                                                     \
    HF_VALUE_(hf_index_stats, sizeof(struct hf_index_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
              { 0 }, 0, 0, 0, 0, 0)

/* Who compiles a shard. */
struct hf_index_holder {
    const char *shard;
    const char *holder;
    uint64_t token;
    bool over;                      /* its time is provably over: whoever comes takes it */
    int64_t created_ms, expires_ms; /* for display */
};

struct hf_index_status_options {
    size_t struct_size;

    /* Each may be NULL. `progress` is told how many entries were counted: false ends it,
     * CANCELLED. `holder` is told of each of the first 256, `aside` of each of the first 8 entries
     * that were set aside, and why; false: no more of them. */
    bool (*progress)(void *argument, uint64_t entries);
    bool (*holder)(void *argument, const struct hf_index_holder *holder);
    bool (*aside)(void *argument, const char *entry, const char *why);
    void *argument;
};
#define HF_INDEX_STATUS_OPTIONS                                                            \
    HF_VALUE_(hf_index_status_options, sizeof(struct hf_index_status_options), NULL, NULL, \
              NULL, NULL)

/* Looks only. `options` may be NULL. The status is the store's. */
HF_API enum hf_status hf_index_status(struct hf_index *index,
                                      const struct hf_index_status_options *options,
                                      struct hf_index_stats *ret_stats, struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
