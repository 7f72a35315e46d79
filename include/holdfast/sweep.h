/* sweep.h: clears away what nobody touches any more: leases of holders that died, transactions that
 * nobody decided, records of those decided long ago, tables that nobody uses, what compaction left.
 *
 *     struct hf_sweep_report report = HF_SWEEP_REPORT;
 *     hf_sweep(client, NULL, &report, &error);               one run, now
 *
 *     hf_sweeper_start(client, NULL, &sweeper, &error);      whenever there is nothing else to do
 *     hf_sweeper_stop(sweeper);
 *
 * WHAT IT PROMISES. Every operation clears what it touches, so nothing depends on this. Nothing is
 * cleared without the proof that any other operation would need: it may run beside everything else,
 * at any time, and by many at once. What a run costs grows with what has expired, not with what
 * exists; it is capped in entries and time, and the next run goes on where one was stopped. A full
 * run looks at everything, whatever the expiry indexes say.
 *
 * THE IDLE RULE. A sweeper in the background begins a run when no call of this client has begun for
 * idle_grace_ms and, on a local store, no other process has changed it; it gives way within one
 * entry when one does, and on any store when somebody changes what it is working on. A bucket
 * cannot tell who writes to it: there a run begins after each idle_grace_ms. */
#ifndef HOLDFAST_SWEEP_H
#define HOLDFAST_SWEEP_H

#include "holdfast/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Why a run ended. Each row: name, word, sentence. */
#define HF_SWEEP_STOP_TABLE(ROW)                                              \
    ROW(DONE, "done", "there was nothing more to do")                         \
    ROW(ACTIVITY, "activity", "a caller began an operation")                  \
    ROW(PEERS, "other_process", "another process changed the store")          \
    ROW(CONFLICT, "conflict", "somebody else changed what it was working on") \
    ROW(OPS, "max_ops", "it looked at as many entries as it may")             \
    ROW(TIME, "max_runtime", "it ran for as long as it may")                  \
    ROW(CANCELLED, "cancelled", "it was told to stop")                        \
    ROW(BUSY, "busy", "another sweep of this process is under way")           \
    ROW(FAILED, "failed", "the store failed")
#define HF_SWEEP_STOP_ENUM_(name, word, text) HF_SWEEP_STOP_##name,
enum hf_sweep_stop { HF_SWEEP_STOP_TABLE(HF_SWEEP_STOP_ENUM_) HF_SWEEP_STOP_COUNT };
#undef HF_SWEEP_STOP_ENUM_

/* "max_ops", and the sentence; "" for a number that is none. */
HF_API const char *hf_sweep_stop_name(enum hf_sweep_stop stop);
HF_API const char *hf_sweep_stop_text(enum hf_sweep_stop stop);

/* What a run, or all runs together, did; with dry_run would do, but for partitions. */
struct hf_sweep_report {
    size_t struct_size;
    uint64_t runs;
    uint64_t namespaces;      /* that the last run covers */
    uint64_t ops;             /* entries looked at, a partition counts as one */
    uint64_t leases_cleared;  /* that were provably over */
    uint64_t stages_settled;  /* of transactions that were over */
    uint64_t rolled_back;     /* transactions that nobody decided */
    uint64_t markers_deleted; /* records of transactions */
    uint64_t entries_deleted; /* of the expiry indexes, for good */
    uint64_t entries_moved;   /* to a later hour */
    uint64_t tables_purged;
    uint64_t states_deleted; /* bodies of keys that nothing names */
    uint64_t bodies_deleted; /* of fenced objects that nothing names */
    uint64_t outputs_condemned, chunks_deleted, names_dropped; /* of compaction */
    uint64_t failed; /* entries that could not be dealt with; left for a later run */
    uint64_t stopped_by_activity; /* runs that gave way to somebody */
    int64_t duration_ms;
    enum hf_sweep_stop stop; /* of the last run */
};
#define HF_SWEEP_REPORT                                                                      \
    HF_VALUE_(hf_sweep_report, sizeof(struct hf_sweep_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
              0, 0, 0, 0, 0, 0, 0, 0, HF_SWEEP_STOP_DONE)

struct hf_sweep_options {
    size_t struct_size;
    bool full;              /* everything, whatever the indexes say */
    bool dry_run;           /* change nothing, and tell what a run would do */
    bool all_namespaces;    /* else that of the client alone */
    int64_t op_delay_ms;    /* between two entries; up to a minute */
    uint64_t ops_max;       /* entries looked at; 1 to a thousand million */
    int64_t runtime_max_ms; /* nothing is begun that would not end by then; 1 ms to a week */

    /* Each may be NULL. `progress` is called between two entries: false ends the run, CANCELLED.
     * `failed` is told of each entry that could not be dealt with. */
    bool (*progress)(void *argument, const struct hf_sweep_report *so_far);
    void (*failed)(void *argument, const char *about, const struct hf_error *why);
    void *argument;
};
#define HF_SWEEP_OPTIONS                                                                 \
    HF_VALUE_(hf_sweep_options, sizeof(struct hf_sweep_options), false, false, false, 0, \
              1000000, 3600000, NULL, NULL, NULL)

/* One run now. The store remembers where it stopped and what it did (best effort); a dry run leaves
 * no trace. `options` and `report` may be NULL; the report is written whatever the status is.
 *   OK         it ended: report->stop says why. BUSY: another run of this process is under way, and
 *              nothing was done
 *   INVALID    an option is out of range
 *   CANCELLED  by `progress`
 *   others     the store's: it failed, and what was done before stays done */
HF_API enum hf_status hf_sweep(struct hf_client *client, const struct hf_sweep_options *options,
                               struct hf_sweep_report *report, struct hf_error *error);

/* ---- In the background --------------------------------------------------------------- */

struct hf_sweeper;

struct hf_sweeper_options {
    size_t struct_size;
    int64_t idle_grace_ms; /* 10 ms to a week */
    int64_t op_delay_ms;
    uint64_t ops_max;
    int64_t runtime_max_ms;
    bool all_namespaces;
    bool remember; /* tell the store of each run, for hf_sweep_status: one get and one put */

    /* May be NULL. Told of each run, from the thread of the sweeper; must not stop it. */
    void (*ran)(void *argument, const struct hf_sweep_report *run);
    void *argument;
};
#define HF_SWEEPER_OPTIONS                                                                     \
    HF_VALUE_(hf_sweeper_options, sizeof(struct hf_sweeper_options), 300000, 100, 1000, 30000, \
              false, false, NULL, NULL)

/* Starts a thread that sweeps by the idle rule. `options` may be NULL. INVALID: an option is out of
 * range. UNAVAILABLE: no thread or memory. What fails in a run is tried again by the next. */
HF_API enum hf_status hf_sweeper_start(struct hf_client *client,
                                       const struct hf_sweeper_options *options,
                                       struct hf_sweeper **ret_sweeper, struct hf_error *error);

/* Stops it within one entry, and frees it. NULL is fine. */
HF_API void hf_sweeper_stop(struct hf_sweeper *sweeper);

/* The sum of its runs so far. Local. */
HF_API enum hf_status hf_sweeper_report(struct hf_sweeper *sweeper,
                                        struct hf_sweep_report *report, struct hf_error *error);

/* Whether the store tells when another process changes it, so that a sweeper can wait for that to
 * end; false for NULL. Local. */
HF_API bool hf_sweep_sees_others(struct hf_client *client);

/* ---- What there is to do, and what was done ------------------------------------------ */

/* What a run would find in the expiry indexes, counted up to a bound. */
struct hf_sweep_due {
    size_t struct_size;
    uint64_t lease_hours, lease_entries; /* that are over */
    uint64_t txn_hours, txn_entries;
    uint64_t later_hours; /* that are not over yet */
    bool more;            /* there is more than was counted */
    int64_t last_ms; /* when the last run that the store remembers ended, since 1970, by the
                             wall clock of who ran it; 0: never */
};
#define HF_SWEEP_DUE \
    HF_VALUE_(hf_sweep_due, sizeof(struct hf_sweep_due), 0, 0, 0, 0, 0, false, 0)

/* Looks only. `last` and `total` are the last run of anybody that the store remembers, and the sum
 * of all; each may be NULL. Without all_namespaces these are the runs of the client's namespace
 * alone. The status is the store's. */
HF_API enum hf_status hf_sweep_status(struct hf_client *client, bool all_namespaces,
                                      struct hf_sweep_due *due, struct hf_sweep_report *last,
                                      struct hf_sweep_report *total, struct hf_error *error);

/* The namespaces that a run covers, in byte order: those that have tables or an epoch, and the
 * client's. `each` returns false to stop, which is OK. UNAVAILABLE: there are too many. */
HF_API enum hf_status hf_sweep_namespaces(struct hf_client *client, bool all_namespaces,
                                          bool (*each)(void *argument, const char *ns),
                                          void *argument, struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
