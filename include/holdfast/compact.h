/* compact.h: many small objects of a bucket into few, by any number of workers on any machines.
 *
 *     struct hf_compact *compact;
 *     struct hf_compact_settings settings = HF_COMPACT_SETTINGS;
 *     settings.key = "1";                                       field 1, and of each key ...
 *     settings.time = "3";                                      ... the latest by field 3
 *     hf_compact_open(client, "events", NULL, &compact, &error);
 *     hf_compact_create(compact, &settings, &error);
 *     hf_compact_ingest(compact, paths, 20, NULL, NULL, &error);
 *     hf_compact_run(compact, NULL, NULL, &error);
 *     hf_compact_close(compact);
 *
 * A PARTITION is a set of chunks: objects of records, named in a catalog in the bucket. Ingest adds
 * chunks of level 0; a merge replaces some of them by one of a higher level, by one conditional
 * write of the catalog, so it happens once or not at all. A lease only keeps two workers from the
 * same work: when a worker dies, another takes its group over, and nothing is lost or doubled.
 *
 * What was merged stays for a time of grace, in which hf_compact_undelete takes the merge back. A
 * READER pins the chunks that it reads: they are not deleted before it is closed, however long that
 * takes. A chunk that is damaged, missing, or fails its merges too often is QUARANTINED with the
 * reason, and the rest goes on.
 *
 * A MERGER OF YOUR OWN merges chunks in your own format: a callback that gets files and writes one.
 *
 *     settings.format = HF_MERGE_EXEC;                          chunks are bytes to everybody else
 *     settings.command = "my-engine {inputs} {output}";         whose first word names the merger
 *     ...
 *     struct hf_merger merger = HF_MERGER;
 *     merger.name = "my-engine";
 *     merger.merge = merge_my_files;
 *     options.merger = &merger;
 *     hf_compact_worker_start(compact, &options, &worker, &error);
 *
 * A worker that has no merger of that name leaves such a partition alone, unless its owner allows a
 * program of that name (allow_exec). */
#ifndef HOLDFAST_COMPACT_H
#define HOLDFAST_COMPACT_H

#include "holdfast/lock.h"
#include "holdfast/merge.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A partition, as one client knows it. */
struct hf_compact;

/* What stands in the way of one part while the rest goes on: a catalog or a lease table of the
 * partition that cannot be read. `part` names it. */
struct hf_compact_trouble {
    size_t struct_size;
    const char *part;
    enum hf_status status;
    const char *why;
};

struct hf_compact_options {
    size_t struct_size;
    /* Programs that the command of a partition may run on this machine, by absolute path, and
     * limits of each of their processes (0: 8 GiB, 64 GiB and an hour). A command is written by
     * whoever can write the bucket: without this none runs. */
    const char *const *allow_exec;
    size_t allow_exec_count;
    uint64_t exec_memory_max;
    uint64_t exec_file_max;
    int64_t exec_cpu_ms;
    const char *scratch_folder; /* on a local disk; NULL: $TMPDIR, or /tmp */
    /* May be NULL. The call that found it ends with that status once the rest is done. */
    void (*trouble)(void *argument, const struct hf_compact_trouble *trouble);
    void *argument;
};
#define HF_COMPACT_OPTIONS                                                                   \
    HF_VALUE_(hf_compact_options, sizeof(struct hf_compact_options), NULL, 0, 0, 0, 0, NULL, \
              NULL, NULL)

/* A handle; asks nothing of the store. `partition` is a name of a-z 0-9 . _ - in up to 64 bytes;
 * NULL: "default". `options` may be NULL. INVALID: no such name. Close it before its client; the
 * client's memory and store go with the last handle. */
HF_API enum hf_status hf_compact_open(struct hf_client *client, const char *partition,
                                      const struct hf_compact_options *options,
                                      struct hf_compact **ret_compact, struct hf_error *error);

/* Workers and readers must be freed before. NULL is fine. */
HF_API void hf_compact_close(struct hf_compact *compact);

/* ---- Settings ------------------------------------------------------------------------ */

/* When chunks are merged. */
#define HF_COMPACT_POLICY_TABLE(ROW)                                          \
    ROW(LEVELS, "levels", "level 0 by hour and count, higher ones to a size") \
    ROW(CASCADE, "cascade", "all below a level at once, as a counter carries")

#define HF_COMPACT_POLICY_ENUM_(name, word, text) HF_COMPACT_##name,
enum hf_compact_policy {
    HF_COMPACT_POLICY_TABLE(HF_COMPACT_POLICY_ENUM_) HF_COMPACT_POLICY_COUNT
};
#undef HF_COMPACT_POLICY_ENUM_

/* "levels"; "" for a number that is not in the table. */
HF_API const char *hf_compact_policy_name(enum hf_compact_policy policy);

/* The same backwards. INVALID: there is no such policy. */
HF_API enum hf_status hf_compact_policy_parse(const char *text,
                                              enum hf_compact_policy *ret_policy,
                                              struct hf_error *error);

/* How a partition is compacted. The settings stand in its catalog, so that all workers go by the
 * same. Format, key, time and headless cannot change once there are chunks. */
struct hf_compact_settings {
    size_t struct_size;
    enum hf_merge_format format;
    const char *key, *time; /* as in merge.h; NULL: none */
    bool headless;
    enum hf_merge_coding coding; /* of what is merged; AUTO: plain */
    const char *command;         /* merges in place of the format; NULL: none */
    int64_t command_limit_ms;
    uint64_t rejects_max; /* rows of a chunk that cannot be read; one with more is not let in */
    enum hf_compact_policy policy;
    uint64_t level0_count;     /* so many chunks of one hour are merged */
    uint64_t level1_bytes;     /* chunks of level 1 are merged once they come to this, ... */
    uint64_t level_factor;     /* ... of each next level to so many times more */
    uint64_t cascade_base;     /* so many chunks trigger a carry */
    uint64_t group_max;        /* most chunks of one merge */
    int64_t ttl_ms;            /* of the leases of merges */
    int64_t grace_ms;          /* how long a chunk that was merged is kept */
    int64_t late_bound_ms;     /* a request that was given up on lands no later than this */
    int64_t skew_tolerance_ms; /* of the store's clock */
    int64_t retention_ms;      /* chunks whose records are all older expire; 0: never */
    uint64_t backlog_max;      /* ingest waits while so many chunks of level 0 stand there */
    uint64_t tries_max;        /* a chunk that fails so often, alone, is quarantined */
    int64_t step_ms;           /* of the election: each rank starts so much later */
};
#define HF_COMPACT_SETTINGS                                                                 \
    HF_VALUE_(hf_compact_settings, sizeof(struct hf_compact_settings), HF_MERGE_USV, NULL,  \
              NULL, false, HF_MERGE_AUTO, NULL, 3600000, 0, HF_COMPACT_LEVELS, 15,          \
              UINT64_C(2147483648), 5, 20, 256, 60000, 900000, 86400000, 30000, 0, 3000, 3, \
              1000)

/* Makes the partition.
 *   OK        made, or it is there with the same settings
 *   CONFLICT  it is there with others
 *   INVALID   a setting is out of range, or some do not go together */
HF_API enum hf_status hf_compact_create(struct hf_compact *compact,
                                        const struct hf_compact_settings *settings,
                                        struct hf_error *error);

/* The settings as they stand in the bucket. The texts live as long as the handle. NOT_FOUND: there
 * is no such partition. */
HF_API enum hf_status hf_compact_get_settings(struct hf_compact *compact,
                                              struct hf_compact_settings *ret_settings,
                                              struct hf_error *error);

/* Sets all of them: read them, change what is to change, write them back.
 *   CONFLICT  it changes what chunks are made of, and there are some
 *   INVALID   as for create */
HF_API enum hf_status hf_compact_set(struct hf_compact *compact,
                                     const struct hf_compact_settings *settings,
                                     struct hf_error *error);

/* Stops workers from starting merges until it is resumed; merges under way are finished. `why` and
 * `by` are for people and may be NULL. NOT_FOUND: there is no such partition. */
HF_API enum hf_status hf_compact_pause(struct hf_compact *compact, const char *why,
                                       const char *by, struct hf_error *error);
HF_API enum hf_status hf_compact_resume(struct hf_compact *compact, struct hf_error *error);

/* ---- Ingest -------------------------------------------------------------------------- */

/* What became of one file or object. */
struct hf_compact_ingested {
    size_t struct_size;
    const char *source; /* its path, or the key of the object */
    enum hf_status status;
    const char *why; /* "" when OK */
    bool already;    /* it was there before: nothing was added */
    const char *key; /* of its chunk; NULL when it was there before or failed */
    uint64_t size, rows;
    uint64_t malformed; /* rows that a merge will put aside */
};

struct hf_compact_ingest_options {
    size_t struct_size;
    const char *writer; /* a label, the same for all files of one source; NULL: the holder */
    const char *id;  /* the identity of the file, of which there is one then; NULL: its bytes */
    int64_t wait_ms; /* how long to wait while too many chunks are to be merged; 0: not */
    int64_t patience_ms; /* how long to ask a store that does not answer; 0: a minute */
    /* Told of each source, in order, at the end; false: no more. May be NULL. */
    bool (*each)(void *argument, const struct hf_compact_ingested *ingested);
    /* How many bytes were put. False ends it: what was put is added, the rest is CANCELLED. May be
     * NULL. */
    bool (*progress)(void *argument, uint64_t sources_done, uint64_t bytes_done);
    void *argument; /* of both */
};
#define HF_COMPACT_INGEST_OPTIONS                                                              \
    HF_VALUE_(hf_compact_ingest_options, sizeof(struct hf_compact_ingest_options), NULL, NULL, \
              0, 0, NULL, NULL, NULL)

struct hf_compact_ingest_report {
    size_t struct_size;
    uint64_t added;   /* sources that became chunks */
    uint64_t already; /* that were chunks, or had been */
    uint64_t failed;
    uint64_t bytes, rows, malformed; /* of those that were added */
};
#define HF_COMPACT_INGEST_REPORT                                                             \
    HF_VALUE_(hf_compact_ingest_report, sizeof(struct hf_compact_ingest_report), 0, 0, 0, 0, \
              0, 0)

/* Files become chunks of level 0. A file that was added before, as long as the catalog remembers
 * it, is not added again: whoever was interrupted may ingest all files again. The same file is one
 * with the same bytes, or of the same id. A file that cannot be taken is left, and the rest goes
 * on; the status is that of the first that was left. `options` and `report` may be NULL; the
 * report is set whatever the status is.
 *   INVALID      an empty file, or one with too many rows that cannot be read
 *   UNAVAILABLE  too many chunks wait to be merged, or the store does not answer
 *   UNSURE       nobody knows whether it was added: ingest it again
 *   CANCELLED    progress said so
 *   NOT_FOUND    there is no such file, or no such partition */
HF_API enum hf_status hf_compact_ingest(struct hf_compact *compact, const char *const *paths,
                                        size_t count,
                                        const struct hf_compact_ingest_options *options,
                                        struct hf_compact_ingest_report *report,
                                        struct hf_error *error);

/* The same of objects that stand in the bucket, by their keys. Each is read, and put as a chunk;
 * the object itself stays as it is, and is its owner's to delete. INVALID too: an object of
 * Holdfast's own (under data/, metadata/ and the like). */
HF_API enum hf_status hf_compact_ingest_objects(struct hf_compact *compact,
                                                const char *const *keys, size_t count,
                                                const struct hf_compact_ingest_options *options,
                                                struct hf_compact_ingest_report *report,
                                                struct hf_error *error);

/* ---- Chunks -------------------------------------------------------------------------- */

#define HF_CHUNK_STATE_TABLE(ROW)                                                           \
    ROW(LIVE, "live", "it is data")                                                         \
    ROW(TOMBSTONE, "tombstone", "it was merged or has expired; undelete can bring it back") \
    ROW(RETIRED, "retired", "it is being deleted")                                          \
    ROW(CONDEMNED, "condemned", "it was never data, and is being deleted")

#define HF_CHUNK_STATE_ENUM_(name, word, text) HF_CHUNK_##name,
enum hf_chunk_state { HF_CHUNK_STATE_TABLE(HF_CHUNK_STATE_ENUM_) HF_CHUNK_STATE_COUNT };
#undef HF_CHUNK_STATE_ENUM_

/* "live"; "" for a number that is not in the table. */
HF_API const char *hf_chunk_state_name(enum hf_chunk_state state);

/* Of one that is being deleted only key, partition and state are known. */
struct hf_chunk_info {
    size_t struct_size;
    const char *key;
    const char *partition; /* whose catalog has it: this one, or one that it was split into */
    enum hf_chunk_state state;
    unsigned level;
    uint64_t size;
    bool rows_known; /* of formats that are made of records */
    uint64_t rows;
    int64_t min_ms, max_ms; /* of its records, since 1970; or when it came, where there are no
                               times */
    const char *writer;     /* who ingested it; "" of what was merged */
    uint64_t sequence;      /* of that writer */
    uint32_t crc32c;
    uint64_t rejects;       /* rows that its merge put aside */
    unsigned tries;         /* merges of it that failed */
    const char *quarantine; /* why it is left alone; "" when it is not */
    const char *into;       /* of a tombstone: what it was merged into; "" of others */
};
#define HF_CHUNK_INFO                                                                       \
    HF_VALUE_(hf_chunk_info, sizeof(struct hf_chunk_info), NULL, NULL, HF_CHUNK_LIVE, 0, 0, \
              false, 0, 0, 0, NULL, 0, 0, 0, 0, NULL, NULL)

enum hf_chunks { HF_CHUNKS_LIVE, HF_CHUNKS_QUARANTINED, HF_CHUNKS_ALL };

/* Lists chunks: those that are data, those of them in quarantine, or all that the catalogs know.
 * `each` may call anything; its texts live for the call only; false ends the list, which is OK. One
 * get per catalog. NOT_FOUND: there is no such partition. CORRUPT, UNSUPPORTED: a catalog cannot be
 * read; the others were listed. */
HF_API enum hf_status hf_compact_chunks(struct hf_compact *compact, enum hf_chunks which,
                                        bool (*each)(void *argument,
                                                     const struct hf_chunk_info *chunk),
                                        void *argument, struct hf_error *error);

/* Leaves a live chunk out of merges, for a reason of up to 200 bytes, and lets it back in, with its
 * failed tries forgotten. NOT_FOUND: it is not live. */
HF_API enum hf_status hf_compact_quarantine(struct hf_compact *compact, const char *key,
                                            const char *why, struct hf_error *error);
HF_API enum hf_status hf_compact_unquarantine(struct hf_compact *compact, const char *key,
                                              struct hf_error *error);

/* Takes a merge back: the tombstone and all that was merged with it are data again, and what they
 * were merged into becomes a tombstone. `ret_restored`, how many came back, may be NULL.
 *   NOT_FOUND  it is no tombstone, or not any more
 *   CONFLICT   what it was merged into was merged on, or moved by a split */
HF_API enum hf_status hf_compact_undelete(struct hf_compact *compact, const char *key,
                                          uint64_t *ret_restored, struct hf_error *error);

/* ---- Readers ------------------------------------------------------------------------- */

/* The chunks that were data at one moment, pinned. */
struct hf_compact_reader;

struct hf_compact_reader_options {
    size_t struct_size;
    int64_t ttl_ms; /* of the pins, which are renewed in the background; 0: a minute */
};
#define HF_COMPACT_READER_OPTIONS \
    HF_VALUE_(hf_compact_reader_options, sizeof(struct hf_compact_reader_options), 0)

/* Pins all live chunks. Their rows are those of the partition, each once, as of the moment at which
 * its catalog was read (of a partition that was split: the moment of each catalog). Merges go on
 * meanwhile, and do not change what the reader sees. `options` may be NULL.
 *   NOT_FOUND    there is no such partition
 *   UNAVAILABLE  the store does not answer, or chunks were deleted faster than they could be pinned
 *   CORRUPT      a catalog cannot be read: what is left would not be all rows */
HF_API enum hf_status hf_compact_reader_open(struct hf_compact *compact,
                                             const struct hf_compact_reader_options *options,
                                             struct hf_compact_reader **ret_reader,
                                             struct hf_error *error);

/* The next chunk; its texts live until the reader is closed. NOT_FOUND: there are no more. */
HF_API enum hf_status hf_compact_reader_next(struct hf_compact_reader *reader,
                                             struct hf_chunk_info *ret_chunk,
                                             struct hf_error *error);

/* Begins again with the first. */
HF_API void hf_compact_reader_rewind(struct hf_compact_reader *reader);

/* How many chunks there are. Local. */
HF_API uint64_t hf_compact_reader_count(struct hf_compact_reader *reader);

/* Whether all are still pinned: OK, or EXPIRED or LOST, as hf_lock_check. Local. Ask after the last
 * read: until then everything that was read was there as it should be. */
HF_API enum hf_status hf_compact_reader_check(struct hf_compact_reader *reader,
                                              struct hf_error *error);

/* Writes the bytes of a chunk of the reader to a file, from its start, and checks them.
 *   CORRUPT    they are not what the catalog says
 *   NOT_FOUND  the reader has no such chunk, or the object is gone */
HF_API enum hf_status hf_compact_reader_fetch(struct hf_compact_reader *reader, const char *key,
                                              int fd, struct hf_error *error);

/* Unpins them. NULL is fine. */
HF_API void hf_compact_reader_close(struct hf_compact_reader *reader);

/* Pins 1 to 512 chunks of one partition by key, live or in their grace, for as long as the lock is
 * held. NOT_FOUND: one of them is not there any more, and nothing is pinned. */
HF_API enum hf_status hf_compact_pin(struct hf_compact *compact, const char *const *keys,
                                     size_t count, int64_t ttl_ms, struct hf_lock **ret_lock,
                                     struct hf_error *error);

/* ---- Planning ------------------------------------------------------------------------ */

/* Chunks that are to be merged into one. */
struct hf_compact_group {
    size_t struct_size;
    const char *partition; /* whose catalog has them */
    unsigned level;        /* of the output */
    bool forced;           /* below its threshold */
    uint64_t bytes;
    uint64_t rows; /* of those that are known */
    const char *const *sources;
    size_t source_count;
};

struct hf_compact_plan_report {
    size_t struct_size;
    uint64_t groups, chunks, bytes, rows;
    uint64_t requests;    /* that a pass would make */
    uint64_t leased;      /* chunks that were left out since somebody merges them */
    uint64_t quarantined; /* and since they are in quarantine */
    bool barred;          /* a lease table grants nothing just now */
    bool paused;
    char why
        [HF_WHY_MAX]; /* why nothing would be done: paused, barred, a command that may not run
                             here; "" otherwise */
};
#define HF_COMPACT_PLAN_REPORT                                                                 \
    HF_VALUE_(hf_compact_plan_report, sizeof(struct hf_compact_plan_report), 0, 0, 0, 0, 0, 0, \
              0, false, false, { 0 })

/* What a pass would do now; `force`: everything that can be merged with another, below any
 * threshold. `each` may be NULL, and may call anything; false ends it, which is OK, and then the
 * report counts the groups that were told. `report` may be NULL. */
HF_API enum hf_status hf_compact_plan(struct hf_compact *compact, bool force,
                                      bool (*each)(void *argument,
                                                   const struct hf_compact_group *group),
                                      void *argument, struct hf_compact_plan_report *report,
                                      struct hf_error *error);

/* For a program that decides itself when to merge: whether a pass would find groups that nobody is
 * at. Ask, then hf_compact_run. `report` may be NULL; its `why` says when a command that is not
 * allowed here stands in the way of a worker without a merger of its own. */
HF_API enum hf_status hf_compact_should_start(struct hf_compact *compact, bool *ret_start,
                                              struct hf_compact_plan_report *report,
                                              struct hf_error *error);

/* ---- A merger of the caller's own ---------------------------------------------------- */

struct hf_merger_source {
    const char *key;  /* of the chunk */
    const char *path; /* where its bytes are, checked against the catalog: to be read only */
    uint64_t size;
};

/* What is to be merged. */
struct hf_merger_job {
    size_t struct_size;
    const struct hf_merger_source *sources;
    size_t source_count;
    const char *partition;
    unsigned level;        /* of the output */
    const char *output;    /* the file to be written; it is not there yet */
    const char *folder;    /* of the output: for files on the way, which are removed for you */
    uint64_t memory_bytes; /* that it may take */
    const void *inside;
};

/* For long merges, every few seconds at least: false when the merge is to end (CANCELLED), since
 * the worker stops or the lease is lost. */
HF_API bool hf_merger_goes_on(const struct hf_merger_job *job, uint64_t bytes_done);

#define HF_MERGER_NOBODY SIZE_MAX

/* What came of it. All of it may be left as it is. */
struct hf_merged {
    size_t struct_size;
    size_t
        culprit; /* after CORRUPT or INVALID: the source that is to blame, which is quarantined;
                       HF_MERGER_NOBODY: the group as a whole, so it is halved and tried again */
    bool rows_known;
    uint64_t rows_in, rows_out; /* the rest is counted as superseded */
};

/* Called by threads of the worker, as many at once as it has jobs, with no lock held.
 *   OK               `output` is written: whole, though it need not be synced
 *   CORRUPT, INVALID the sources cannot be merged (see culprit)
 *   CANCELLED        hf_merger_goes_on said so
 *   any other        nobody's fault: tried again later
 * `error` has the reason, for people. The same sources should give the same output. What it wrote
 * is used only if it is not empty and the sources are unchanged. */
struct hf_merger {
    size_t struct_size;
    const char *name; /* the first word of the settings' command; a partition whose command has
                         another, or that has none, is left alone. NULL: it merges any partition */
    enum hf_status (*merge)(void *argument, const struct hf_merger_job *job,
                            struct hf_merged *merged, struct hf_error *error);
    void *argument;
};
#define HF_MERGER HF_VALUE_(hf_merger, sizeof(struct hf_merger), NULL, NULL, NULL)

/* ---- Working ------------------------------------------------------------------------- */

/* How a merge ended. */
#define HF_COMPACT_END_TABLE(ROW)                                \
    ROW(COMMITTED, "committed", "it counts")                     \
    ROW(HELD, "held", "somebody else is at it")                  \
    ROW(PASSED, "passed", "it was not to be done any more")      \
    ROW(LOST, "lost", "somebody else was first: merged in vain") \
    ROW(FAILED, "failed", "the error says why")                  \
    ROW(STOPPED, "stopped", "the worker was stopped")            \
    ROW(UNSURE, "unsure", "the store does not answer: whoever looks next will find out")

#define HF_COMPACT_END_ENUM_(name, word, text) HF_COMPACT_END_##name,
enum hf_compact_end { HF_COMPACT_END_TABLE(HF_COMPACT_END_ENUM_) HF_COMPACT_END_COUNT };
#undef HF_COMPACT_END_ENUM_

/* "committed"; "" for a number that is not in the table. */
HF_API const char *hf_compact_end_name(enum hf_compact_end end);

/* Whose fault a failure was. */
enum hf_compact_blame {
    HF_COMPACT_BLAME_NOBODY, /* this machine's, the store's: nothing is counted */
    HF_COMPACT_BLAME_GROUP,  /* a try of each chunk is counted */
    HF_COMPACT_BLAME_CHUNK,  /* one chunk's, which is quarantined */
};

struct hf_compact_totals {
    size_t struct_size;
    uint64_t groups_planned, bytes_planned; /* as of now: due or under way */
    uint64_t groups_committed, groups_failed, groups_lost;
    uint64_t bytes_done;    /* of the sources of merges that count, and of those under way */
    uint64_t bytes_in_vain; /* of merges that do not */
    uint64_t rows_in, rows_out, rows_superseded, rows_expired, rows_rejected;
    uint64_t claims;      /* leases granted */
    uint64_t claims_held; /* and refused, since somebody else was first */
    uint64_t takeovers;   /* outputs of dead workers that were settled */
    /* Cleared away: leases settled, outputs condemned, chunks past retention, tombstones past
     * grace, objects deleted, those left since somebody reads them, names forgotten. */
    uint64_t settled, condemned, retired, reaped, deleted, pinned, dropped;
};
#define HF_COMPACT_TOTALS                                                                     \
    HF_VALUE_(hf_compact_totals, sizeof(struct hf_compact_totals), 0, 0, 0, 0, 0, 0, 0, 0, 0, \
              0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

/* What a worker tells while it works. */
#define HF_COMPACT_EVENT_TABLE(ROW)                                               \
    ROW(NEEDED, "needed", "there is something to merge, after there was nothing") \
    ROW(PLANNED, "planned", "the totals are new")                                 \
    ROW(STARTED, "started", "a merge that has its lease begins")                  \
    ROW(PROGRESS, "progress", "of all merges")                                    \
    ROW(ENDED, "ended", "a merge ended")                                          \
    ROW(TENDED, "tended", "what is no longer needed was looked for")              \
    ROW(PAUSED, "paused", "somebody has paused the partition")                    \
    ROW(TROUBLE, "trouble", "the store or a catalog cannot be used; it goes on")

#define HF_COMPACT_EVENT_ENUM_(name, word, text) HF_COMPACT_##name,
enum hf_compact_event_kind {
    HF_COMPACT_EVENT_TABLE(HF_COMPACT_EVENT_ENUM_) HF_COMPACT_EVENT_COUNT
};
#undef HF_COMPACT_EVENT_ENUM_

/* "ended"; "" for a number that is not in the table. */
HF_API const char *hf_compact_event_name(enum hf_compact_event_kind kind);

/* How one merge ended. */
struct hf_compact_result {
    size_t struct_size;
    enum hf_compact_end end;
    struct hf_error error;
    enum hf_compact_blame blame;
    const char *output; /* the key; "" when none was drawn */
    uint64_t output_bytes;
    uint64_t merged_bytes; /* read from the store */
    bool rows_known;
    uint64_t rows_in, rows_out, rows_superseded, rows_rejected;
    const char *rejects; /* the key of what was put aside, or "" */
    uint64_t took_over;  /* leases of dead workers that were settled on the way */
    int64_t took_ms;
};

struct hf_compact_event {
    size_t struct_size;
    enum hf_compact_event_kind kind;
    const struct hf_compact_group *group;   /* of STARTED and ENDED; NULL otherwise */
    const struct hf_compact_result *result; /* of ENDED; NULL otherwise */
    const struct hf_compact_totals *totals;
    const char *why; /* of PAUSED and TROUBLE; "" otherwise */
};

enum hf_compact_mode {
    HF_COMPACT_ONCE,   /* one plan, all its groups */
    HF_COMPACT_DRAIN,  /* until nothing is left to do, what others are at included */
    HF_COMPACT_WATCH,  /* until stopped */
    HF_COMPACT_NOTIFY, /* until stopped, and merges nothing: only NEEDED and TROUBLE are told */
};

#define HF_COMPACT_JOBS_MAX 64

struct hf_compact_worker_options {
    size_t struct_size;
    enum hf_compact_mode mode;
    bool force;       /* everything that can be merged with another, at once */
    unsigned jobs;    /* merges at once; 0: one per processor, up to 4; at most 64 */
    unsigned threads; /* of one merge; 0: likewise */
    uint64_t
        memory_bytes;  /* of all together; 0: 256 MiB, or 8 MiB per job where that is more */
    int64_t poll_ms;   /* when there is nothing to do; 0: by the kind of store */
    const char *label; /* by which others know it; NULL: the client's holder */
    const struct hf_merger *merger; /* NULL: by the format, or the command of the settings */
    /* Told by one thread of the worker at a time. It may ask the bucket for anything, and stop the
     * worker, but not wait for it. False stops the worker. May be NULL. */
    bool (*event)(void *argument, const struct hf_compact_event *event);
    void *argument;
};
#define HF_COMPACT_WORKER_OPTIONS                                                  \
    HF_VALUE_(hf_compact_worker_options, sizeof(struct hf_compact_worker_options), \
              HF_COMPACT_ONCE, false, 0, 0, 0, 0, NULL, NULL, NULL, NULL)

/* Works in the thread of the caller, until all is done. `options` may be NULL; `totals` too, and
 * they are set whatever the status is.
 *   OK           all that was to be done was done; groups that failed are counted in the totals
 *   CANCELLED    `event` said so
 *   UNAVAILABLE  the partition is paused, or the store does not answer
 *   DENIED       the partition's command may not run here, or its merger is another one
 *   NOT_FOUND    there is no such partition */
HF_API enum hf_status hf_compact_run(struct hf_compact *compact,
                                     const struct hf_compact_worker_options *options,
                                     struct hf_compact_totals *totals, struct hf_error *error);

/* The same in threads of the library. */
struct hf_compact_worker;

/* `options` may be NULL: then it watches, as with the mode HF_COMPACT_WATCH. */
HF_API enum hf_status hf_compact_worker_start(struct hf_compact *compact,
                                              const struct hf_compact_worker_options *options,
                                              struct hf_compact_worker **ret_worker,
                                              struct hf_error *error);

/* Asks it to stop: merges under way are cancelled in order, their leases given back. From any
 * thread, an event, or a signal handler. NULL is fine. */
HF_API void hf_compact_worker_stop(struct hf_compact_worker *worker);

/* Waits for its end, up to wait_ms. `totals` may be NULL, and are set whatever the status is.
 *   TIMEOUT    it still works
 *   OK         it is over: all was done, or it watched and was stopped
 *   CANCELLED  it was stopped, or `event` said so, before all was done
 *   others     as of hf_compact_run */
HF_API enum hf_status hf_compact_worker_wait(struct hf_compact_worker *worker, int64_t wait_ms,
                                             struct hf_compact_totals *totals,
                                             struct hf_error *error);

/* Stops it, waits for its end, and frees it. NULL is fine. */
HF_API void hf_compact_worker_free(struct hf_compact_worker *worker);

/* ---- Status -------------------------------------------------------------------------- */

/* A merge that is under way. */
struct hf_compact_job_info {
    size_t struct_size;
    const char *holder;
    const char *state; /* of its lease, as judged */
    unsigned level;
    uint64_t chunks;
    const char *output;
    uint64_t token, renewals;
    int64_t held_ms, expires_in_ms;
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
};

/* One catalog of the partition. */
struct hf_compact_catalog {
    size_t struct_size;
    const char *partition;
    unsigned depth;
    uint64_t chunks, live_bytes; /* bytes of the document */
    uint64_t dead, dead_bytes;
    uint64_t writers;
    bool split;        /* its chunks are in catalogs below it */
    bool clogged;      /* too much waits to be deleted: nothing is planned */
    uint64_t pressure; /* in percent; at 100 ingest waits */
};

/* Who else works on it. */
struct hf_compact_member {
    size_t struct_size;
    const char *fingerprint;
    int64_t modified_ms;
};

/* What is to be listed besides; each may be NULL. They may call anything. False ends that list. */
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
    bool barred;      /* a lease table grants nothing just now */
    bool damaged;     /* since a lease table cannot be read */
    bool exec_denied; /* its command may not run here */
    char paused_why[HF_WHY_MAX];
    char barred_why[HF_WHY_MAX];
    char exec_why[HF_WHY_MAX];
    struct hf_compact_level levels[HF_COMPACT_LEVELS_MAX];
    uint64_t backlog_max; /* of chunks at level 0 */
    uint64_t pressure;    /* of the catalog that has most, in percent */
    uint64_t due_groups, due_bytes;
    uint64_t under_way;
    uint64_t unsettled; /* leases that ended without a result */
    uint64_t pins;
    uint64_t committed, failed, lost; /* in the last hour */
    uint64_t committed_bytes;
    int64_t committed_ms; /* that these took */
    char last_failure[HF_WHY_MAX];
    uint64_t quarantined;
    uint64_t tombstones, tombstone_bytes;
    uint64_t retired, condemned; /* names that are being deleted */
    uint64_t members;
};
#define HF_COMPACT_STATUS                                                                      \
    HF_VALUE_(hf_compact_status, sizeof(struct hf_compact_status), 0, false, false, false,     \
              false, { 0 }, { 0 }, { 0 }, { { 0, 0, 0 } }, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
              { 0 }, 0, 0, 0, 0, 0, 0)

/* How the partition is. `options` may be NULL. CORRUPT, UNSUPPORTED: a catalog or a lease table
 * cannot be read; `ret_status` has the rest, if any catalog could be. NOT_FOUND: there is no such
 * partition. */
HF_API enum hf_status hf_compact_get_status(struct hf_compact *compact,
                                            const struct hf_compact_status_options *options,
                                            struct hf_compact_status *ret_status,
                                            struct hf_error *error);

/* ---- Fsck ---------------------------------------------------------------------------- */

#define HF_FSCK_KIND_TABLE(ROW)                                                               \
    ROW(MISSING_OBJECT, "missing-object", "a live chunk whose object is not there")           \
    ROW(WRONG_SIZE, "wrong-size", "a live chunk whose object has another size")               \
    ROW(WRONG_CHECKSUM, "wrong-checksum", "a live chunk whose bytes have another checksum")   \
    ROW(WRONG_ROWS, "wrong-rows", "a live chunk with more or fewer rows than it should have") \
    ROW(UNREADABLE_OBJECT, "unreadable-object", "a live chunk that cannot be read just now")  \
    ROW(MISSING_TOMBSTONE, "missing-tombstone", "a chunk in its grace whose object is gone")  \
    ROW(UNREFERENCED, "unreferenced", "an object of data/ that no catalog knows")             \
    ROW(FOREIGN, "foreign", "an object under data/ whose name is not one of ours")            \
    ROW(LINGERING, "lingering", "an object that was deleted and is there all the same")       \
    ROW(BAD_CATALOG, "bad-catalog", "a catalog that cannot be read")                          \
    ROW(MISSING_CATALOG, "missing-catalog", "a catalog that another names and is not there")  \
    ROW(STRAY_CATALOG, "stray-catalog", "a catalog of a split that came to nothing")          \
    ROW(TWICE, "twice", "a key that two catalogs have")                                       \
    ROW(WRONG_HOME, "wrong-home", "a key in a catalog that it cannot belong to")              \
    ROW(UNSETTLED_LEASE, "unsettled-lease",                                                   \
        "a lease that is over and whose output is not settled")                               \
    ROW(BAD_LEASES, "bad-leases", "a lease table that cannot be read")

#define HF_FSCK_KIND_ENUM_(name, word, about) HF_FSCK_##name,
enum hf_fsck_kind { HF_FSCK_KIND_TABLE(HF_FSCK_KIND_ENUM_) HF_FSCK_KIND_COUNT };
#undef HF_FSCK_KIND_ENUM_

/* "missing-object", and its sentence; "" for a number that is not in the table. */
HF_API const char *hf_fsck_kind_name(enum hf_fsck_kind kind);
HF_API const char *hf_fsck_kind_text(enum hf_fsck_kind kind);

struct hf_fsck_finding {
    size_t struct_size;
    enum hf_fsck_kind kind;
    const char *key; /* of the object, or of the document */
    const char *partition;
    const char *why; /* "": as the sentence of its kind */
    bool repaired;
    const char *repair; /* what was done, or what can be, to end a sentence: "can be deleted" */
};

struct hf_fsck_options {
    size_t struct_size;
    bool repair;
    bool shallow; /* do not read the objects: names and sizes only */
    int64_t
        age_ms; /* objects that no catalog knows and that are younger are left, since somebody
                       may be about to add them; 0: an hour; negative: none is too young */
    const char *scratch_folder; /* for one object at a time; NULL: $TMPDIR, or /tmp */
    /* May be NULL; false ends it, which is OK. Told while it looks. */
    bool (*finding)(void *argument, const struct hf_fsck_finding *finding);
    /* May be NULL; false ends it: CANCELLED. */
    bool (*progress)(void *argument, uint64_t chunks_done, uint64_t chunks_total,
                     uint64_t bytes_done);
    void *argument; /* of both */
};
#define HF_FSCK_OPTIONS                                                                     \
    HF_VALUE_(hf_fsck_options, sizeof(struct hf_fsck_options), false, false, 0, NULL, NULL, \
              NULL, NULL)

struct hf_fsck_report {
    size_t struct_size;
    uint64_t catalogs, chunks, tombstones, deleting, objects, bytes_read, rows;
    uint64_t found, repaired;
    uint64_t young; /* objects that no catalog knows and that are too young to be told */
};
#define HF_FSCK_REPORT \
    HF_VALUE_(hf_fsck_report, sizeof(struct hf_fsck_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

/* Whether a bucket is what its catalogs say: all of it, or with `partition` one with its children.
 * Without `repair` it changes nothing. A repair goes through the same transitions as all else, and
 * never removes what could be data. Others may work meanwhile: what is told was looked at again,
 * and was still so. `options` and `report` may be NULL; the report is set when it is OK.
 *   OK           it came to its end, whatever it found
 *   NOT_FOUND    there is no such partition
 *   CANCELLED    progress said so
 *   UNAVAILABLE  the store does not answer, or a million names are too few: name a partition */
HF_API enum hf_status hf_compact_fsck(struct hf_client *client, const char *partition,
                                      const struct hf_fsck_options *options,
                                      struct hf_fsck_report *report, struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
