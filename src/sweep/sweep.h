/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h: background maintenance: removes leftovers that no client touches any more, while the
 * store is idle.
 *
 * Every operation cleans up what it touches, so nothing depends on sweeping. A run reads the
 * indexes, but only hours that have fully passed, one hour and one page at a time, and pauses
 * between two entries. It stops at its limits or when other clients are active: when a caller
 * begins an operation, when another process changes a local store, or, on any store, when another
 * client changes an object that the run is working on. Its cost grows with the amount of expired
 * data, not with the size of the bucket. A full run checks everything, regardless of the indexes.
 * See docs/design.md, section 9. */
#ifndef SWEEP_SWEEP_H
#define SWEEP_SWEEP_H

#include "base/layout.h"
#include "key/key.h"

struct sweep_settings {
    /* How long the store must be idle before the idle sweeper starts. */
    struct span idle_grace;
    struct span op_delay;    /* between two entries */
    uint64_t ops_max;        /* entries per run; a partition counts as one */
    struct span runtime_max; /* per run; a run starts no step that would exceed it */
    bool all_namespaces;     /* if not, only the client's namespace */
};

#define SWEEP_SETTINGS                                   \
    ((struct sweep_settings){ .idle_grace = SPAN_S(300), \
                              .op_delay = SPAN_MS(100),  \
                              .ops_max = 1000,           \
                              .runtime_max = SPAN_S(30) })

/* Bounds of the settings. A run is allowed at least one entry and 1 ms. */
#define SWEEP_GRACE_MIN   SPAN_MS(10)
#define SWEEP_GRACE_MAX   SPAN_S(7 * 86400)
#define SWEEP_DELAY_MAX   SPAN_S(60)
#define SWEEP_OPS_MAX     UINT64_C(1000000000)
#define SWEEP_RUNTIME_MAX SPAN_S(7 * 86400)

/* INVALID with a message if a setting is out of range. */
enum hf_status sweep_settings_check(const struct sweep_settings *settings,
                                    struct hf_error *error);

/* What one run, or all runs together, did. For a dry run: what a real run would do, except in
 * partitions. The numbers of leases cleared by sweeps, operations and operators are in
 * hf_client.shared.cleared. */
struct sweep_report {
    uint64_t runs;
    uint64_t namespaces;      /* covered by the last run */
    uint64_t ops;             /* entries checked */
    uint64_t leases_cleared;  /* proven to have ended */
    uint64_t stages_settled;  /* of decided or abandoned transactions */
    uint64_t markers_deleted; /* transaction records */
    uint64_t rolled_back;     /* transactions that were left pending */
    uint64_t entries_deleted; /* from the indexes, permanently */
    uint64_t entries_moved;   /* to a later hour: a lease is held, or D has not passed */
    uint64_t tables_purged;
    uint64_t states_deleted; /* bodies that nothing names */
    uint64_t bodies_deleted; /* bodies of fenced objects that nothing names */
    uint64_t outputs_condemned, chunks_deleted, names_dropped; /* of compaction */
    uint64_t failed;              /* entries that could not be handled; left for the next run */
    uint64_t stopped_by_activity; /* runs stopped by callers, other processes or a conflict */
    struct span duration;
    enum hf_sweep_stop stop; /* of the last run */
};

/* Adds a run to the total of the runs before it. */
void sweep_report_add(struct sweep_report *total, const struct sweep_report *run);

/* The position at which the next run continues. `sweep` keeps it in the store, and the idle
 * sweeper in memory. */
struct sweep_cursor {
    /* The last entry of the expiry index that was checked. */
    char lease_entry[KEY_BYTES_MAX + 1];
    char txn_entry[KEY_BYTES_MAX + 1];
    char partition[PARTITION_BYTES_MAX + 1]; /* the last partition that was handled */
    /* In a full run, the last object that was checked. */
    char full[KEY_BYTES_MAX + 1];
    uint64_t turn; /* which of these the next run begins with, so that none waits forever */
    int64_t raised_hour; /* the last hour in which the epoch of a namespace was raised */
};

struct sweep_options {
    struct sweep_settings settings;
    enum sweep_mode mode; /* IDLE yields to other clients; MANUAL does not */
    bool overdue;         /* with IDLE: it was delayed for so long that it does not yield */
    bool full;
    bool dry_run;
    bool (*go_on)(void *argument); /* may be NULL; returns false to stop the run */
    void *argument;
    void (*progress)(void *argument, const struct sweep_report *report); /* may be NULL */
    /* Reports an entry that could not be handled: its object and the reason; may be NULL. */
    void (*failed)(void *argument, struct view about, const struct hf_error *error);
};

/* Sweeps the client's namespace or all namespaces, the transactions and the partitions, once.
 * *report is set to what the run did. Only one run at a time is allowed per process: a second call
 * does nothing and returns OK with the stop reason BUSY. If the store fails, the run ends with
 * that status, and the report contains what was done before. A failing entry does not end the
 * run. A dry run leaves the cursor unchanged. */
enum hf_status sweep_run(struct hf_client *client, const struct sweep_options *options,
                         struct sweep_cursor *cursor, struct sweep_report *report,
                         struct hf_error *error);

/* ---- The idle sweeper ---------------------------------------------------------------- */

/* A task that sweeps whenever, for idle_grace, no caller has begun an operation and, if the store
 * can detect this, no other process has changed the store. If the store is never idle, the task
 * sweeps after 12 times idle_grace, and such a run does not yield. */
struct sweeper;
struct sweeper_watch {
    bool remember; /* record each run in the store */
    void (*ran)(void *argument, const struct sweep_report *run); /* may be NULL */
    void *argument;
};

/* `watch` may be NULL. */
enum hf_status sweeper_start(struct hf_client *client, const struct sweep_settings *settings,
                             const struct sweeper_watch *watch, struct sweeper **ret_sweeper,
                             struct hf_error *error);

/* Stops the sweeper within one entry, and frees it. NULL is allowed. */
void sweeper_stop(struct sweeper *sweeper);

/* The total of its runs so far. */
void sweeper_report(struct sweeper *sweeper, struct sweep_report *ret_report);

/* ---- How much there is to do, and what was done -------------------------------------- */

/* The namespaces of a store, in byte order: those that have tables or an epoch, and the client's
 * own. UNAVAILABLE if there are more than NAMESPACES_MAX. Without `all`, only the client's own. */
struct sweep_names {
    char (*names)[NAME_BYTES_MAX + 1];
    size_t count;
};
enum hf_status sweep_names_find(struct hf_client *client, bool all, struct mono_time deadline,
                                struct sweep_names *ret_names, struct hf_error *error);
void sweep_names_release(struct sweep_names *names);

/* The record of a namespace's sweeps in the store: .holdfast/sweep/<ns>.json or, for sweeps of all
 * namespaces, .holdfast/sweep/.all.json. */
struct sweep_memory {
    struct sweep_cursor cursor;
    struct sweep_report last, total;
    struct wall_time at; /* when the last run ended, for display */
};
enum hf_status sweep_remember(struct hf_client *client, bool all,
                              const struct sweep_memory *memory, struct hf_error *error);
/* All zero if there is no record, or if it cannot be read. */
enum hf_status sweep_recall(struct hf_client *client, bool all, struct sweep_memory *ret_memory,
                            struct hf_error *error);

/* Adds a run to the record in the store, and sets the position at which the next run continues
 * (`cursor` NULL: unchanged). Failures are ignored, because the record is only for display and
 * saves a later run some listing. */
void sweep_remember_run(struct hf_client *client, bool all, const struct sweep_cursor *cursor,
                        const struct sweep_report *run);

/* Combines the records of all-namespace sweeps and of these namespaces: the last run, and the
 * total of all runs. */
enum hf_status sweep_recall_sum(struct hf_client *client, const struct sweep_names *names,
                                struct sweep_memory *ret_memory, struct hf_error *error);

/* Counts what a run would find in the indexes, up to a limit. */
enum hf_status sweep_due(struct hf_client *client, const struct sweep_names *names,
                         struct hf_sweep_due *ret_due, struct hf_error *error);

#endif
