/* sweep.h: maintenance that costs nothing: what nobody touches any more is cleared away while
 * nothing else goes on.
 *
 * Every operation cleans what it touches, so nothing depends on this. A run reads the expiry
 * indexes, only hours that are wholly over, one hour and one page at a time, waits between two
 * entries, and stops at its caps or when somebody else is at work: when a caller begins an
 * operation, when another process changes a local store, and on any store when what it works on is
 * changed under it. Its cost grows with what has expired, not with what exists. A full run looks at
 * everything, whatever the indexes say.
 * docs/design.md section 9. */
#ifndef SWEEP_SWEEP_H
#define SWEEP_SWEEP_H

#include "base/layout.h"
#include "key/key.h"

struct sweep_settings {
    struct span idle_grace;  /* nobody at work for so long, then the idle sweeper may begin */
    struct span op_delay;    /* between two entries */
    uint64_t ops_max;        /* entries looked at in a run, a partition counts as one */
    struct span runtime_max; /* of a run; nothing is begun that would not end by then */
    bool all_namespaces;     /* else that of the client alone */
};

#define SWEEP_SETTINGS                                   \
    ((struct sweep_settings){ .idle_grace = SPAN_S(300), \
                              .op_delay = SPAN_MS(100),  \
                              .ops_max = 1000,           \
                              .runtime_max = SPAN_S(30) })

/* Bounds of these; a run is of one entry and 1 ms at least. */
#define SWEEP_GRACE_MIN   SPAN_MS(10)
#define SWEEP_GRACE_MAX   SPAN_S(7 * 86400)
#define SWEEP_DELAY_MAX   SPAN_S(60)
#define SWEEP_OPS_MAX     UINT64_C(1000000000)
#define SWEEP_RUNTIME_MAX SPAN_S(7 * 86400)

/* INVALID with a sentence when a setting is out of range. */
enum hf_status sweep_settings_check(const struct sweep_settings *settings,
                                    struct hf_error *error);

/* What a run, or all runs together, did. With dry_run: would do, but for partitions. By on whose
 * behalf leases were cleared, also by operations, is in hf_client.shared.cleared. */
struct sweep_report {
    uint64_t runs;
    uint64_t namespaces;      /* of the last run: that it covers */
    uint64_t ops;             /* entries looked at */
    uint64_t leases_cleared;  /* that were provably over */
    uint64_t stages_settled;  /* of transactions that were over */
    uint64_t markers_deleted; /* records of transactions */
    uint64_t rolled_back;     /* transactions that nobody decided */
    uint64_t entries_deleted; /* of the indexes, for good */
    uint64_t entries_moved;   /* to a later hour: it is not over, or D has to pass */
    uint64_t tables_purged;
    uint64_t states_deleted; /* bodies that nothing names */
    uint64_t bodies_deleted; /* of fenced objects, that nothing names */
    uint64_t outputs_condemned, chunks_deleted, names_dropped; /* of compaction */
    uint64_t failed; /* entries that could not be dealt with; left for the next run */
    uint64_t stopped_by_activity; /* runs: of callers, of other processes, or by a conflict */
    struct span duration;
    enum hf_sweep_stop stop; /* of the last run */
};

/* Adds what a run did to what the runs before it did together. */
void sweep_report_add(struct sweep_report *total, const struct sweep_report *run);

/* Where the next run goes on; kept in the store by `sweep`, in memory by the idle sweeper. */
struct sweep_cursor {
    char lease_entry[KEY_BYTES_MAX + 1]; /* the last entry of the expiry index looked at */
    char txn_entry[KEY_BYTES_MAX + 1];
    char partition[PARTITION_BYTES_MAX + 1]; /* the last one that was tended */
    char full[KEY_BYTES_MAX + 1];            /* of a full run: the last object looked at */
    uint64_t turn; /* which of these the next run begins with, so that none waits for ever */
    int64_t raised_hour; /* the last in which the epoch of a namespace was raised */
};

struct sweep_options {
    struct sweep_settings settings;
    enum sweep_mode mode; /* IDLE stops for traffic; MANUAL does not */
    bool overdue;         /* of IDLE: it was put off for so long that it does not stop either */
    bool full;
    bool dry_run;
    bool (*go_on)(void *argument); /* may be NULL; false: stop */
    void *argument;
    void (*progress)(void *argument, const struct sweep_report *report); /* may be NULL */
    /* An entry that could not be dealt with: of what, and why; may be NULL. */
    void (*failed)(void *argument, struct view about, const struct hf_error *error);
};

/* One run over the client's namespace, or all of them, the transactions and the partitions; *report
 * is set to what it did. One at a time in a process: else it is OK, and has stopped as BUSY, having
 * done nothing. A failure of the store ends it with that status, and the report says what was done
 * before; a failing entry does not. A dry run leaves the cursor as it is. */
enum hf_status sweep_run(struct hf_client *client, const struct sweep_options *options,
                         struct sweep_cursor *cursor, struct sweep_report *report,
                         struct hf_error *error);

/* ---- The idle sweeper ---------------------------------------------------------------- */

/* A task that sweeps whenever no caller has begun an operation for idle_grace and, where the store
 * tells of that, no other process has changed it. Where that never comes it sweeps after 12 times
 * idle_grace, and such a run does not give way. */
struct sweeper;
struct sweeper_watch {
    bool remember; /* tell the store of each run */
    void (*ran)(void *argument, const struct sweep_report *run); /* may be NULL */
    void *argument;
};

/* `watch` may be NULL. */
enum hf_status sweeper_start(struct hf_client *client, const struct sweep_settings *settings,
                             const struct sweeper_watch *watch, struct sweeper **ret_sweeper,
                             struct hf_error *error);

/* Stops it within one entry, and frees it. NULL is fine. */
void sweeper_stop(struct sweeper *sweeper);

/* The sum of its runs so far. */
void sweeper_report(struct sweeper *sweeper, struct sweep_report *ret_report);

/* ---- What there is to do, and what was done ------------------------------------------ */

/* The namespaces of a store, in byte order: those that have tables or an epoch, and the client's.
 * UNAVAILABLE when there are more than NAMESPACES_MAX. Without `all` only the client's. */
struct sweep_names {
    char (*names)[NAME_BYTES_MAX + 1];
    size_t count;
};
enum hf_status sweep_names_find(struct hf_client *client, bool all, struct mono_time deadline,
                                struct sweep_names *ret_names, struct hf_error *error);
void sweep_names_release(struct sweep_names *names);

/* What the store remembers of the sweeps of a namespace: .holdfast/sweep/<ns>.json, and of those
 * of all of them: .holdfast/sweep/.all.json. */
struct sweep_memory {
    struct sweep_cursor cursor;
    struct sweep_report last, total;
    struct wall_time at; /* when the last run ended, for people */
};
enum hf_status sweep_remember(struct hf_client *client, bool all,
                              const struct sweep_memory *memory, struct hf_error *error);
/* All zero when there is none, or it cannot be read. */
enum hf_status sweep_recall(struct hf_client *client, bool all, struct sweep_memory *ret_memory,
                            struct hf_error *error);

/* Adds a run to what the store remembers, and where the next goes on; `cursor` NULL: as before. To
 * fail at that is no reason to fail: it is for people, and saves a later run some listing. */
void sweep_remember_run(struct hf_client *client, bool all, const struct sweep_cursor *cursor,
                        const struct sweep_report *run);

/* Of sweeps of all namespaces and of each of these: the last run of any, and the sum of all. */
enum hf_status sweep_recall_sum(struct hf_client *client, const struct sweep_names *names,
                                struct sweep_memory *ret_memory, struct hf_error *error);

/* What a run would find in the indexes; counts up to a bound. */
struct sweep_due {
    uint64_t lease_hours, lease_entries; /* that are over */
    uint64_t txn_hours, txn_entries;
    uint64_t later_hours; /* that are not over yet */
    bool more;            /* there is more than was counted */
};
enum hf_status sweep_due(struct hf_client *client, const struct sweep_names *names,
                         struct sweep_due *ret_due, struct hf_error *error);

#endif
