/* SPDX-License-Identifier: Apache-2.0 */
/* compact.h: compaction of many small objects into a few large ones, by any number of workers on
 * any number of machines.
 *
 *     struct hf_compact *compact;
 *     struct hf_compact_settings settings = HF_COMPACT_SETTINGS;
 *     settings.key = "1";                                       for each key in field 1 ...
 *     settings.time = "3";                                      ... keep the latest by field 3
 *     hf_compact_open(client, "events", NULL, &compact, &error);
 *     hf_compact_create(compact, &settings, &error);
 *     hf_compact_ingest(compact, paths, 20, NULL, NULL, &error);
 *     hf_compact_run(compact, NULL, NULL, &error);
 *     hf_compact_close(compact);
 *
 * A PARTITION is a set of chunks: objects that contain records and are listed in a catalog in the
 * bucket. Ingest adds chunks of level 0. A merge replaces chunks with one chunk of a higher level
 * in a single conditional write to the catalog, so it happens once or not at all. Leases only keep
 * workers from duplicating work. If a worker dies, another worker takes over its group; nothing is
 * lost or duplicated.
 *
 * A merged chunk is kept for a grace period, during which hf_compact_undelete can undo the merge. A
 * READER (reader.h) pins its chunks: they are not deleted until the reader is closed, however long
 * that takes.
 * A chunk that is damaged or missing, or whose merges fail too many times, is QUARANTINED with the
 * reason, and the other chunks are still merged.
 *
 * A CUSTOM MERGER is a callback that merges files in your own format into one file.
 *
 *     settings.format = HF_MERGE_EXEC;                          chunks are opaque bytes
 *     settings.command = "my-engine {inputs} {output}";         the first word names the merger
 *     ...
 *     struct hf_merger merger = HF_MERGER;
 *     merger.name = "my-engine";
 *     merger.merge = merge_my_files;
 *     options.merger = &merger;
 *     hf_compact_worker_start(compact, &options, &worker, &error);
 *
 * A worker without a merger of that name ignores such a partition, unless allow_exec permits the
 * worker to run a program of that name. */
#ifndef HOLDFAST_COMPACT_H
#define HOLDFAST_COMPACT_H

#include "holdfast/fsck.h"
#include "holdfast/lock.h"
#include "holdfast/merge.h"
#include "holdfast/reader.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A handle to a partition. */
struct hf_compact;

/* A catalog or lease table that cannot be read, although others can. `part` names it. */
struct hf_compact_trouble {
    size_t struct_size;
    const char *part;
    enum hf_status status;
    const char *why;
};

struct hf_compact_options {
    size_t struct_size;
    /* The absolute paths of programs that a partition's command may run on this machine, and limits
     * for each of their processes (0: 8 GiB, 64 GiB and one hour). Any client that can write to the
     * bucket can set the command, so by default no program may run. */
    const char *const *allow_exec;
    size_t allow_exec_count;
    uint64_t exec_memory_max;
    uint64_t exec_file_max;
    int64_t exec_cpu_ms;
    const char *scratch_folder; /* on a local disk (default: $TMPDIR, or /tmp) */
    /* Optional. Called for each problem. The call that found the problem returns the problem's
     * status after the rest of the work is done. */
    void (*trouble)(void *argument, const struct hf_compact_trouble *trouble);
    void *argument;
};
#define HF_COMPACT_OPTIONS                                                                   \
    HF_VALUE_(hf_compact_options, sizeof(struct hf_compact_options), NULL, 0, 0, 0, 0, NULL, \
              NULL, NULL)

/* Creates a handle to a partition. `partition` is a name of up to 64 bytes from a-z 0-9 . _ -
 * (default: "default"). `options` may be NULL. Close the handle before its client; the client's
 * memory and store are freed with the last handle. HF_INVALID: the name is invalid. Local. */
HF_API enum hf_status hf_compact_open(struct hf_client *client, const char *partition,
                                      const struct hf_compact_options *options,
                                      struct hf_compact **ret_compact, struct hf_error *error);

/* Closes a handle, which may be NULL. Its workers and readers stay valid, and must be freed. */
HF_API void hf_compact_close(struct hf_compact *compact);

/* ---- Settings ------------------------------------------------------------------------ */

/* When chunks are merged. */
#define HF_COMPACT_POLICY_TABLE(ROW)                                          \
    ROW(LEVELS, "levels", "level 0 by hour and count, higher levels by size") \
    ROW(CASCADE, "cascade", "all levels below one together, like a carry")

#define HF_COMPACT_POLICY_ENUM_(name, word, text) HF_COMPACT_##name,
enum hf_compact_policy {
    HF_COMPACT_POLICY_TABLE(HF_COMPACT_POLICY_ENUM_) HF_COMPACT_POLICY_COUNT
};
#undef HF_COMPACT_POLICY_ENUM_

/* Returns the name of a policy, such as "levels". */
HF_API const char *hf_compact_policy_name(enum hf_compact_policy policy);

/* Converts a name to its policy. Returns HF_INVALID if the name is unknown. */
HF_API enum hf_status hf_compact_policy_parse(const char *text,
                                              enum hf_compact_policy *ret_policy,
                                              struct hf_error *error);

/* The settings of a partition. They are stored in its catalog, so all workers use the same ones.
 * format, key, time and headless cannot change once the partition has chunks. */
struct hf_compact_settings {
    size_t struct_size;
    enum hf_merge_format format;
    const char *key, *time; /* as in merge.h, or NULL */
    bool headless;
    enum hf_merge_coding coding; /* of merged chunks; AUTO: plain */
    const char *command;         /* merges instead of the format, or NULL */
    int64_t command_limit_ms;
    uint64_t rejects_max; /* unreadable rows allowed per chunk; more: refused */
    enum hf_compact_policy policy;
    uint64_t level0_count;     /* how many chunks from the same hour trigger a merge */
    uint64_t level1_bytes;     /* how many bytes at level 1 trigger a merge */
    uint64_t level_factor;     /* how much this threshold grows per level */
    uint64_t cascade_base;     /* how many chunks trigger a carry */
    uint64_t group_max;        /* the maximum number of chunks in one merge */
    int64_t ttl_ms;            /* of merge leases */
    int64_t grace_ms;          /* how long a merged chunk is kept */
    int64_t late_bound_ms;     /* D: after this, an abandoned request cannot take effect */
    int64_t skew_tolerance_ms; /* of the store's clock */
    int64_t retention_ms;      /* a chunk expires when all its records are older; 0: never */
    uint64_t backlog_max;      /* ingest waits at this many chunks of level 0 */
    uint64_t tries_max;        /* quarantine a chunk after it alone fails this many times */
    int64_t step_ms;           /* how much later each rank may start */
    uint64_t output_max;       /* a merge of more bytes is divided into ranges, if it can be */
    /* A field, or NULL: a record in which it is true deletes the older records of its key. Needs a
     * key and a time, and no command; cannot change once the partition has chunks. In Parquet
     * files, it is a BOOLEAN column. */
    const char *deleted;
};
#define HF_COMPACT_SETTINGS                                                                 \
    HF_VALUE_(hf_compact_settings, sizeof(struct hf_compact_settings), HF_MERGE_USV, NULL,  \
              NULL, false, HF_MERGE_AUTO, NULL, 3600000, 0, HF_COMPACT_LEVELS, 15,          \
              UINT64_C(2147483648), 5, 20, 256, 60000, 900000, 86400000, 30000, 0, 3000, 3, \
              1000, UINT64_C(1073741824), NULL)

/* Creates the partition. Also returns HF_OK if the partition exists with the same settings. Returns
 * HF_CONFLICT if it exists with different settings, and HF_INVALID if settings are out of range
 * or contradictory. */
HF_API enum hf_status hf_compact_create(struct hf_compact *compact,
                                        const struct hf_compact_settings *settings,
                                        struct hf_error *error);

/* Reads the settings from the bucket. The strings are valid until the handle is closed. Returns
 * HF_NOT_FOUND if the partition does not exist. */
HF_API enum hf_status hf_compact_get_settings(struct hf_compact *compact,
                                              struct hf_compact_settings *ret_settings,
                                              struct hf_error *error);

/* Changes the settings that differ between `before` and `after`: read them, and change a copy.
 * Others, which another client may have changed since, stay as they are. Without `before`, replaces
 * all settings. Returns HF_CONFLICT if this changes the format of existing chunks, and HF_INVALID
 * in the same cases as hf_compact_create. If the store fails midway (often UNSURE), or the caller
 * is killed, a partition that was split may have the change only in part, and parts may have older
 * settings than another call has set meanwhile; the next call completes it. */
HF_API enum hf_status hf_compact_set(struct hf_compact *compact,
                                     const struct hf_compact_settings *before,
                                     const struct hf_compact_settings *after,
                                     struct hf_error *error);

/* Stops workers from starting merges until the partition is resumed. Running merges finish. `why`
 * and `by` are for display and may be NULL. HF_NOT_FOUND: the partition does not exist. */
HF_API enum hf_status hf_compact_pause(struct hf_compact *compact, const char *why,
                                       const char *by, struct hf_error *error);
HF_API enum hf_status hf_compact_resume(struct hf_compact *compact, struct hf_error *error);

/* ---- Ingest -------------------------------------------------------------------------- */

/* The result for one file or object. */
struct hf_compact_ingested {
    size_t struct_size;
    const char *source; /* its path, or the key of the object */
    enum hf_status status;
    const char *why; /* "" if HF_OK */
    bool already;    /* it was ingested before; nothing was added */
    const char *key; /* of its chunk; NULL if ingested before or failed */
    uint64_t size, rows;
    uint64_t malformed; /* rows that a merge will reject */
};

struct hf_compact_ingest_options {
    size_t struct_size;
    const char *writer;  /* a label, one per source of files (default: the holder) */
    const char *id;      /* identity of a single file (default: its bytes) */
    int64_t wait_ms;     /* how long to wait if too many chunks are unmerged; 0: no wait */
    int64_t patience_ms; /* how long to retry if the store does not reply; 0: a minute */
    /* Optional. Called at the end for each source, in order; return false to skip the rest. */
    bool (*each)(void *argument, const struct hf_compact_ingested *ingested);
    /* Optional. Called with the number of bytes uploaded so far. Return false to stop: sources that
     * were already uploaded are added, and the others have the status HF_CANCELLED. */
    bool (*progress)(void *argument, uint64_t sources_done, uint64_t bytes_done);
    void *argument; /* for both callbacks */
};
#define HF_COMPACT_INGEST_OPTIONS                                                              \
    HF_VALUE_(hf_compact_ingest_options, sizeof(struct hf_compact_ingest_options), NULL, NULL, \
              0, 0, NULL, NULL, NULL)

struct hf_compact_ingest_report {
    size_t struct_size;
    uint64_t added;   /* sources that became chunks */
    uint64_t already; /* sources ingested before */
    uint64_t failed;
    uint64_t bytes, rows, malformed; /* of the added sources */
};
#define HF_COMPACT_INGEST_REPORT                                                             \
    HF_VALUE_(hf_compact_ingest_report, sizeof(struct hf_compact_ingest_report), 0, 0, 0, 0, \
              0, 0)

/* Adds files as chunks of level 0. A file that was added before is not added again, as long as the
 * catalog remembers it, so an interrupted ingest can be repeated with all files. A file is
 * identified by its bytes or, if an id is given, by that id. A file that cannot be added is
 * skipped; the call then returns the status of the first skipped file. `options` and `report` may
 * be NULL; the report is set regardless of the status.
 *
 * Returns HF_INVALID if a file is empty or has too many unreadable rows. Returns HF_UNAVAILABLE if
 * too many chunks are waiting to be merged, or the store does not reply. Returns HF_UNSURE if a
 * file may or may not have been added: ingest it again. Returns HF_CANCELLED if `progress` stopped
 * the call, and HF_NOT_FOUND if a file or the partition does not exist. */
HF_API enum hf_status hf_compact_ingest(struct hf_compact *compact, const char *const *paths,
                                        size_t count,
                                        const struct hf_compact_ingest_options *options,
                                        struct hf_compact_ingest_report *report,
                                        struct hf_error *error);

/* Like hf_compact_ingest, for objects in the bucket. Each object is read and written as a chunk.
 * The object itself is left in place; its owner may delete it. Also returns HF_INVALID for one of
 * Holdfast's own objects (under data/, metadata/ and so on). */
HF_API enum hf_status hf_compact_ingest_objects(struct hf_compact *compact,
                                                const char *const *keys, size_t count,
                                                const struct hf_compact_ingest_options *options,
                                                struct hf_compact_ingest_report *report,
                                                struct hf_error *error);

/* ---- Chunks -------------------------------------------------------------------------- */

#define HF_CHUNK_STATE_TABLE(ROW)                                             \
    ROW(LIVE, "live", "part of the data")                                     \
    ROW(TOMBSTONE, "tombstone", "merged or expired; undelete can restore it") \
    ROW(RETIRED, "retired", "being deleted")                                  \
    ROW(CONDEMNED, "condemned", "never part of the data; being deleted")

#define HF_CHUNK_STATE_ENUM_(name, word, text) HF_CHUNK_##name,
enum hf_chunk_state { HF_CHUNK_STATE_TABLE(HF_CHUNK_STATE_ENUM_) HF_CHUNK_STATE_COUNT };
#undef HF_CHUNK_STATE_ENUM_

/* Returns the name of a state, such as "live". */
HF_API const char *hf_chunk_state_name(enum hf_chunk_state state);

/* A chunk. If it is being deleted, only key, partition and state are known. */
struct hf_chunk_info {
    size_t struct_size;
    const char *key;
    const char *partition; /* this partition, or one that it was split into */
    enum hf_chunk_state state;
    unsigned level;
    uint64_t size;
    bool rows_known; /* true for formats with records */
    uint64_t rows;
    /* The time range of its records, since 1970. If they have no times, the time of its ingest. */
    int64_t min_ms, max_ms;
    const char *writer; /* the label of its ingest; "" if merged */
    uint64_t sequence;  /* of that writer */
    uint32_t crc32c;
    uint64_t rejects;       /* rows that its merge rejected */
    unsigned tries;         /* failed merges */
    const char *quarantine; /* the reason, or "" */
    const char *into;       /* of a tombstone: the chunk it was merged into; otherwise "" */
    /* Of an adopted chunk (adopt.h): the key of its object, and the version that was adopted. Read
     * the object only if it has this ETag. Otherwise "": the object has the chunk's key. */
    const char *object, *etag;
};
#define HF_CHUNK_INFO                                                                       \
    HF_VALUE_(hf_chunk_info, sizeof(struct hf_chunk_info), NULL, NULL, HF_CHUNK_LIVE, 0, 0, \
              false, 0, 0, 0, NULL, 0, 0, 0, 0, NULL, NULL, NULL, NULL)

enum hf_chunks { HF_CHUNKS_LIVE, HF_CHUNKS_QUARANTINED, HF_CHUNKS_ALL };

/* Lists chunks: live chunks, quarantined chunks, or all chunks in the catalogs. `each` may call any
 * function; the strings are valid only during the callback. Return false to stop. The call takes
 * one get per catalog. Returns HF_NOT_FOUND if the partition does not exist. Returns HF_CORRUPT or
 * HF_UNSUPPORTED if a catalog cannot be read; the chunks in the other catalogs were listed. */
HF_API enum hf_status hf_compact_chunks(struct hf_compact *compact, enum hf_chunks which,
                                        bool (*each)(void *argument,
                                                     const struct hf_chunk_info *chunk),
                                        void *argument, struct hf_error *error);

/* Excludes a live chunk from merges, or includes it again and resets its failure count. `why` is at
 * most 200 bytes long. Returns HF_NOT_FOUND if the chunk is not live. */
HF_API enum hf_status hf_compact_quarantine(struct hf_compact *compact, const char *key,
                                            const char *why, struct hf_error *error);
HF_API enum hf_status hf_compact_unquarantine(struct hf_compact *compact, const char *key,
                                              struct hf_error *error);

/* Gives up a quarantined chunk, whose data is damaged or gone: it becomes a tombstone, and its rows
 * are no longer part of the data. hf_compact_undelete can restore it within the grace period. If it
 * contained deletions, records that they hid come back. Returns HF_NOT_FOUND if the chunk is not
 * live, and HF_CONFLICT if it is not in quarantine. */
HF_API enum hf_status hf_compact_discard(struct hf_compact *compact, const char *key,
                                         struct hf_error *error);

/* Undoes a merge. The tombstone and all chunks merged with it become live again, and the chunk they
 * were merged into becomes a tombstone. `ret_restored`, which may be NULL, receives the number of
 * restored chunks. Returns HF_NOT_FOUND if the chunk is not, or is no longer, a tombstone. Returns
 * HF_CONFLICT if the merged chunk was merged again or was moved by a split, or if an adopted object
 * was rewritten or deleted since. If retention took the chunk, all chunks that were taken with it
 * become live again; returns HF_CONFLICT if others were taken later, which must be restored first,
 * or if the partition was split. */
HF_API enum hf_status hf_compact_undelete(struct hf_compact *compact, const char *key,
                                          uint64_t *ret_restored, struct hf_error *error);

/* ---- Pins ---------------------------------------------------------------------------- */

/* Pins 1 to 512 chunks of one partition while the lock is held. The chunks are given by key, and
 * may be live or in their grace period. HF_NOT_FOUND: one is gone, and none is pinned. */
HF_API enum hf_status hf_compact_pin(struct hf_compact *compact, const char *const *keys,
                                     size_t count, int64_t ttl_ms, struct hf_lock **ret_lock,
                                     struct hf_error *error);

/* ---- Planning ------------------------------------------------------------------------ */

/* Chunks to be merged into one. */
struct hf_compact_group {
    size_t struct_size;
    const char *partition; /* the one whose catalog lists them */
    unsigned level;        /* of the output */
    bool forced;           /* below its threshold */
    uint64_t bytes;
    uint64_t rows; /* where known */
    const char *const *sources;
    size_t source_count;
    /* The only chunk is tested by itself, because its merges with others failed: it is merged, and
     * the output is thrown away. */
    bool test;
    /* Number `range`, from 1, of the `ranges` of a divided merge; 0: a whole group. */
    unsigned range, ranges;
    /* The only chunk is rewritten at its level, to drop its deletion markers, which are old and
     * delete nothing any more. */
    bool drops;
};

struct hf_compact_plan_report {
    size_t struct_size;
    uint64_t groups, chunks, bytes, rows;
    uint64_t requests;    /* that a pass would make */
    uint64_t leased;      /* chunks excluded because another worker is merging them */
    uint64_t quarantined; /* chunks excluded because they are in quarantine */
    bool barred;          /* a lease table grants nothing at the moment */
    bool paused;
    /* Why nothing would be done (paused, barred, a command that may not run here), or "". */
    char why[HF_WHY_MAX];
};
#define HF_COMPACT_PLAN_REPORT                                                                 \
    HF_VALUE_(hf_compact_plan_report, sizeof(struct hf_compact_plan_report), 0, 0, 0, 0, 0, 0, \
              0, false, false, { 0 })

/* Reports what a pass would do now. With `force`, plans everything that can be merged with another
 * chunk, regardless of thresholds. `each` is optional, and may call any function. Return false from
 * it to stop; the report then counts only the groups so far. `report` may be NULL, and is set
 * regardless of the status. Returns HF_CORRUPT or HF_UNSUPPORTED if a catalog or lease table cannot
 * be read; the rest was reported. */
HF_API enum hf_status hf_compact_plan(struct hf_compact *compact, bool force,
                                      bool (*each)(void *argument,
                                                   const struct hf_compact_group *group),
                                      void *argument, struct hf_compact_plan_report *report,
                                      struct hf_error *error);

/* Checks whether a pass would find groups that no worker is merging. A program that decides for
 * itself when to merge calls this function, and then hf_compact_run. `report` may be NULL. Its
 * `why` is set if the partition's command may not run here, and only a custom merger can. */
HF_API enum hf_status hf_compact_should_start(struct hf_compact *compact, bool *ret_start,
                                              struct hf_compact_plan_report *report,
                                              struct hf_error *error);

/* ---- Mergers ------------------------------------------------------------------------- */

struct hf_merger_source {
    const char *key;  /* of the chunk */
    const char *path; /* its bytes, verified against the catalog; read only */
    uint64_t size;
};

/* The input of a merger. */
struct hf_merger_job {
    size_t struct_size;
    const struct hf_merger_source *sources;
    size_t source_count;
    const char *partition;
    unsigned level;        /* of the output */
    const char *output;    /* the file to write; it does not exist yet */
    const char *folder;    /* for temporary files, removed for you; contains `output` */
    uint64_t memory_bytes; /* the most memory to use */
    const void *inside;
};

/* Returns false if the merge should stop with HF_CANCELLED, because the worker is stopping or the
 * lease is lost. In long merges, call it at least every few seconds. */
HF_API bool hf_merger_goes_on(const struct hf_merger_job *job, uint64_t bytes_done);

#define HF_MERGER_NOBODY SIZE_MAX

/* The result of a merger. Every member may be left unchanged. */
struct hf_merged {
    size_t struct_size;
    /* After HF_CORRUPT or HF_INVALID: the source at fault, which is quarantined. HF_MERGER_NOBODY:
     * the whole group, which is split in half and retried. */
    size_t culprit;
    bool rows_known;
    uint64_t rows_in, rows_out; /* the difference is counted as superseded */
};

/* A custom merger. The worker's threads call `merge` without holding a lock, with up to as many
 * parallel calls as the worker has jobs. The same sources should always produce the same output.
 *
 * Return HF_OK if `output` is complete; it need not be synced. Return HF_CORRUPT or HF_INVALID if
 * the sources cannot be merged (see `culprit`), and HF_CANCELLED if hf_merger_goes_on returned
 * false. After any other status, no chunk is blamed, and the merge is retried later. Store the
 * reason in `error`, for display. An empty output, or one from changed sources, is not used. If the
 * partition's format has records, the output is read, and its records are counted: an output with
 * none, or with more than the sources have, is not used either. */
struct hf_merger {
    size_t struct_size;
    /* The first word of the command in the settings. A partition whose command starts with another
     * word, or that has no command, is ignored. NULL: the merger accepts any partition. */
    const char *name;
    enum hf_status (*merge)(void *argument, const struct hf_merger_job *job,
                            struct hf_merged *merged, struct hf_error *error);
    void *argument;
};
#define HF_MERGER HF_VALUE_(hf_merger, sizeof(struct hf_merger), NULL, NULL, NULL)

/* ---- Workers ------------------------------------------------------------------------- */

/* How a merge ended. */
#define HF_COMPACT_END_TABLE(ROW)                                                       \
    ROW(COMMITTED, "committed", "the merge took effect")                                \
    ROW(HELD, "held", "another worker is merging the group")                            \
    ROW(PASSED, "passed", "the merge was no longer due")                                \
    ROW(LOST, "lost", "another worker committed first; the output is discarded")        \
    ROW(FAILED, "failed", "the merge failed; the error says why")                       \
    ROW(STOPPED, "stopped", "the worker was stopped")                                   \
    ROW(UNSURE, "unsure", "the store does not answer: the next worker will find out")   \
    ROW(TESTED, "tested",                                                               \
        "a chunk whose merges failed can be merged by itself; nothing changed")         \
    ROW(DIVIDED, "divided", "the merge was divided into ranges, which are merged next") \
    ROW(RANGE, "range", "one range of a divided merge is done, and the others are not")

#define HF_COMPACT_END_ENUM_(name, word, text) HF_COMPACT_END_##name,
enum hf_compact_end { HF_COMPACT_END_TABLE(HF_COMPACT_END_ENUM_) HF_COMPACT_END_COUNT };
#undef HF_COMPACT_END_ENUM_

/* Returns the name of an end, such as "committed". */
HF_API const char *hf_compact_end_name(enum hf_compact_end end);

/* The cause of a failure. */
enum hf_compact_blame {
    HF_COMPACT_BLAME_NOBODY, /* this machine or the store; no chunk is blamed */
    HF_COMPACT_BLAME_GROUP,  /* the group; counts as a failed merge for each chunk */
    HF_COMPACT_BLAME_CHUNK,  /* one chunk, which is quarantined */
};

struct hf_compact_totals {
    size_t struct_size;
    uint64_t groups_planned, bytes_planned; /* current: due or under way */
    uint64_t groups_committed, groups_failed, groups_lost;
    uint64_t bytes_done;    /* of the sources of merges committed or under way */
    uint64_t bytes_in_vain; /* of the sources of other merges */
    uint64_t rows_in, rows_out, rows_superseded, rows_expired, rows_rejected;
    uint64_t claims;      /* leases granted */
    uint64_t claims_held; /* leases refused because another worker was first */
    uint64_t takeovers;   /* outputs of dead workers that were committed or condemned */
    /* Cleanup: leases settled, outputs condemned, chunks past retention, tombstones past the grace
     * period, objects deleted, objects kept because of a pin, names forgotten. */
    uint64_t settled, condemned, retired, reaped, deleted, pinned, dropped;
    uint64_t adopted;      /* objects of the inbox */
    uint64_t rows_deleted; /* deletion markers that were dropped */
};
#define HF_COMPACT_TOTALS                                                                     \
    HF_VALUE_(hf_compact_totals, sizeof(struct hf_compact_totals), 0, 0, 0, 0, 0, 0, 0, 0, 0, \
              0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

/* Events of a worker. */
#define HF_COMPACT_EVENT_TABLE(ROW)                                              \
    ROW(NEEDED, "needed", "there is something to merge again")                   \
    ROW(PLANNED, "planned", "a new plan: the totals have changed")               \
    ROW(STARTED, "started", "a merge starts, and holds its lease")               \
    ROW(PROGRESS, "progress", "the progress of all merges")                      \
    ROW(ENDED, "ended", "a merge ended")                                         \
    ROW(TENDED, "tended", "a cleanup pass ended")                                \
    ROW(PAUSED, "paused", "the partition is paused")                             \
    ROW(TROUBLE, "trouble", "the store or a catalog cannot be used; will retry") \
    ROW(ADOPTED, "adopted", "objects of the inbox became chunks")

#define HF_COMPACT_EVENT_ENUM_(name, word, text) HF_COMPACT_##name,
enum hf_compact_event_kind {
    HF_COMPACT_EVENT_TABLE(HF_COMPACT_EVENT_ENUM_) HF_COMPACT_EVENT_COUNT
};
#undef HF_COMPACT_EVENT_ENUM_

/* Returns the name of an event, such as "ended". */
HF_API const char *hf_compact_event_name(enum hf_compact_event_kind kind);

/* The result of one merge. */
struct hf_compact_result {
    size_t struct_size;
    enum hf_compact_end end;
    struct hf_error error;
    enum hf_compact_blame blame;
    const char *output; /* its key; "" if no key was chosen */
    uint64_t output_bytes;
    uint64_t merged_bytes; /* read from the store */
    bool rows_known;
    uint64_t rows_in, rows_out, rows_superseded, rows_rejected;
    const char *rejects; /* the key of the rejected rows, or "" */
    uint64_t took_over;  /* leases of dead workers that were cleaned up first */
    int64_t took_ms;
    uint64_t rows_deleted; /* deletion markers that were dropped */
};

struct hf_compact_event {
    size_t struct_size;
    enum hf_compact_event_kind kind;
    const struct hf_compact_group *group;   /* STARTED and ENDED; otherwise NULL */
    const struct hf_compact_result *result; /* ENDED; otherwise NULL */
    const struct hf_compact_totals *totals;
    const char *why; /* PAUSED and TROUBLE; otherwise "" */
};

enum hf_compact_mode {
    HF_COMPACT_ONCE,   /* one plan, all its groups */
    HF_COMPACT_DRAIN,  /* until nothing is left to do, including other workers' merges */
    HF_COMPACT_WATCH,  /* until stopped */
    HF_COMPACT_NOTIFY, /* until stopped; no merges, only NEEDED and TROUBLE */
};

#define HF_COMPACT_JOBS_MAX 64

struct hf_compact_worker_options {
    size_t struct_size;
    enum hf_compact_mode mode;
    bool force;            /* merge everything that can be merged with another chunk */
    unsigned jobs;         /* parallel merges; 0: one per processor, up to 4; at most 64 */
    unsigned threads;      /* per merge; 0: one per processor, up to 4 */
    uint64_t memory_bytes; /* in total; 0: 256 MiB, or 8 MiB per job if that is more */
    int64_t poll_ms;       /* when idle; 0: depends on the kind of store */
    const char *label;     /* shown to others (default: the client's holder) */
    const struct hf_merger *merger; /* NULL: the settings determine how to merge */
    /* Optional. Called by one worker thread at a time. Until the callback returns, other events and
     * the merges that report them are blocked; the leases of these merges are still renewed. The
     * callback may call any function and stop the worker, but must not wait for the worker to end
     * or for a lease that the worker holds. Return false to stop the worker. */
    bool (*event)(void *argument, const struct hf_compact_event *event);
    void *argument;
    /* HF_COMPACT_WATCH: a prefix, such as "incoming/", into which writers put objects. The worker
     * adopts each of them once (adopt.h), as with `own`; NULL: none. */
    const char *inbox;
    /* The interval between heartbeats, by which workers know each other: 100 ms to an hour, the
     * same for all workers of the partition; 0: HF_ELECT_BEAT_MS. */
    int64_t beat_ms;
};
#define HF_COMPACT_WORKER_OPTIONS                                                  \
    HF_VALUE_(hf_compact_worker_options, sizeof(struct hf_compact_worker_options), \
              HF_COMPACT_ONCE, false, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 0)

/* Runs a worker in the calling thread until all work is done. `options` and `totals` may be NULL;
 * `totals` is set regardless of the status.
 *
 * Returns HF_OK if all work was done; failed groups are counted in the totals. Returns HF_CANCELLED
 * if `event` stopped the worker. Returns HF_UNAVAILABLE if the partition is paused, or the store
 * does not reply. Returns HF_DENIED if the partition's command may not run here, or needs another
 * merger. Returns HF_NOT_FOUND if the partition does not exist. */
HF_API enum hf_status hf_compact_run(struct hf_compact *compact,
                                     const struct hf_compact_worker_options *options,
                                     struct hf_compact_totals *totals, struct hf_error *error);

/* A worker that runs in library threads. */
struct hf_compact_worker;

/* Starts a worker. If `options` is NULL, the mode is HF_COMPACT_WATCH. */
HF_API enum hf_status hf_compact_worker_start(struct hf_compact *compact,
                                              const struct hf_compact_worker_options *options,
                                              struct hf_compact_worker **ret_worker,
                                              struct hf_error *error);

/* Asks a worker to stop. Running merges are cancelled cleanly, and their leases are released. May
 * be called from any thread, event callback or signal handler. Does nothing if `worker` is NULL. */
HF_API void hf_compact_worker_stop(struct hf_compact_worker *worker);

/* Waits up to wait_ms for a worker to end. `totals` may be NULL, and is set regardless of the
 * status; while the worker is running, it contains the totals from the worker's last event.
 *
 * Returns HF_TIMEOUT if the worker is still running. Returns HF_OK if all work was done, or a
 * watching worker was stopped. Returns HF_CANCELLED if the worker was stopped, by `event` or
 * otherwise, before all work was done. Other statuses are as for hf_compact_run. */
HF_API enum hf_status hf_compact_worker_wait(struct hf_compact_worker *worker, int64_t wait_ms,
                                             struct hf_compact_totals *totals,
                                             struct hf_error *error);

/* Stops a worker, waits for it to end, and frees it. Does nothing if `worker` is NULL. */
HF_API void hf_compact_worker_free(struct hf_compact_worker *worker);

/* ---- Status -------------------------------------------------------------------------- */

/* A running merge. */
struct hf_compact_job_info {
    size_t struct_size;
    const char *holder;
    const char *state; /* the computed state of its lease */
    unsigned level;
    uint64_t chunks;
    const char *output;
    uint64_t token, renewals;
    int64_t held_ms, expires_in_ms;
    /* Number `range`, from 1, of the `ranges` of a divided merge; 0: a whole group. If the catalog
     * no longer knows the merge, `ranges` and `chunks` are 0. */
    unsigned range, ranges;
    /* As of its last renewal; 0: it has not said. `eta_ms` is estimated from it. */
    unsigned done_percent;
    int64_t eta_ms;
};

/* A merge that ended in the last hour. */
struct hf_compact_record {
    size_t struct_size;
    const char *id; /* the key of its output */
    const char *worker;
    const char *end; /* hf_compact_end_name */
    const char *why;
    unsigned level;
    uint64_t sources, bytes_in, bytes_out;
    uint64_t rows_in, rows_out, rows_superseded, rows_expired, rows_rejected;
    int64_t took_ms;
    int64_t ended_ms; /* wall-clock time, for display only */
    uint64_t rows_deleted;
};

/* One catalog of the partition. */
struct hf_compact_catalog {
    size_t struct_size;
    const char *partition;
    unsigned depth;
    uint64_t chunks, live_bytes; /* live_bytes: in the catalog document */
    uint64_t dead, dead_bytes;
    uint64_t writers;
    bool split;        /* its chunks are in catalogs below it */
    bool clogged;      /* too many chunks are waiting to be deleted: nothing is planned */
    uint64_t pressure; /* in percent; at 100, ingest waits */
};

/* Another worker of the partition. */
struct hf_compact_member {
    size_t struct_size;
    const char *fingerprint;
    int64_t modified_ms;
};

/* Optional callbacks, one per list. They may call any function. Return false to end that list. */
struct hf_compact_status_options {
    size_t struct_size;
    bool (*each_job)(void *argument, const struct hf_compact_job_info *job);
    bool (*each_record)(void *argument, const struct hf_compact_record *record);
    bool (*each_catalog)(void *argument, const struct hf_compact_catalog *catalog);
    bool (*each_member)(void *argument, const struct hf_compact_member *member);
    void *argument;
};
#define HF_COMPACT_STATUS_OPTIONS                                                              \
    HF_VALUE_(hf_compact_status_options, sizeof(struct hf_compact_status_options), NULL, NULL, \
              NULL, NULL, NULL)

#define HF_COMPACT_LEVELS_MAX 8

struct hf_compact_level {
    uint64_t chunks, bytes, rows;
};

struct hf_compact_status {
    size_t struct_size;
    uint64_t catalogs;
    bool paused;
    bool barred;      /* a lease table grants nothing at the moment */
    bool damaged;     /* a lease table cannot be read */
    bool exec_denied; /* the partition's command may not run here */
    char paused_why[HF_WHY_MAX];
    char barred_why[HF_WHY_MAX];
    char exec_why[HF_WHY_MAX];
    struct hf_compact_level levels[HF_COMPACT_LEVELS_MAX];
    uint64_t backlog_max; /* for chunks of level 0 */
    uint64_t pressure;    /* of the fullest catalog, in percent */
    uint64_t due_groups, due_bytes;
    uint64_t under_way;
    uint64_t unsettled; /* leases that ended without a result */
    uint64_t pins;
    uint64_t committed, failed, lost; /* in the last hour */
    uint64_t committed_bytes;
    int64_t committed_ms; /* duration of these merges */
    char last_failure[HF_WHY_MAX];
    uint64_t quarantined;
    uint64_t tombstones, tombstone_bytes;
    uint64_t retired, condemned; /* names being deleted */
    uint64_t members;
    bool dropping; /* the partition is being dropped (drop.h) */
};
#define HF_COMPACT_STATUS                                                                      \
    HF_VALUE_(hf_compact_status, sizeof(struct hf_compact_status), 0, false, false, false,     \
              false, { 0 }, { 0 }, { 0 }, { { 0, 0, 0 } }, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
              { 0 }, 0, 0, 0, 0, 0, 0, false)

/* Reports the status of a partition. `options` may be NULL. Returns HF_NOT_FOUND if the partition
 * does not exist. Returns HF_CORRUPT or HF_UNSUPPORTED if a catalog or lease table cannot be read;
 * `ret_status` contains the rest, if at least one catalog could be read. */
HF_API enum hf_status hf_compact_get_status(struct hf_compact *compact,
                                            const struct hf_compact_status_options *options,
                                            struct hf_compact_status *ret_status,
                                            struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
