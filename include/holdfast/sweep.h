/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h: removes leftovers. A sweep removes leases of dead holders, undecided transactions,
 * records of transactions decided long ago, unused tables, and files left over from compaction.
 *
 *     struct hf_sweep_report report = HF_SWEEP_REPORT;
 *     hf_sweep(client, NULL, &report, &error);               one run, now
 *
 *     hf_sweeper_start(client, NULL, &sweeper, &error);      in the background, when idle
 *     hf_sweeper_stop(sweeper);
 *
 * WHAT A SWEEP GUARANTEES. Every operation cleans up what it uses, so nothing depends on sweeping.
 * A sweep removes nothing without the same proof that any other operation would need. Any number of
 * sweeps may run at any time, concurrently with other work. The cost of a run grows with the number
 * of expired entries, not with the number of existing entries. A run is limited in the number of
 * entries and in time, and the next run continues where it stopped. A full run examines everything,
 * without the expiry index.
 *
 * THE IDLE RULE. A background sweeper starts a run when this client has started no call for
 * idle_grace_ms and, on a local store, no other process has changed the store for the same time.
 * The run stops, after at most one more entry, when the client or the store is no longer idle. On
 * any store, it also stops when another client changes an entry that the run is working on. A
 * bucket does not report changes by other clients, so a run on a bucket starts whenever this client
 * has been idle for idle_grace_ms. If activity has delayed or stopped runs for 12 times
 * idle_grace_ms, the next run starts anyway and ignores activity. */
#ifndef HOLDFAST_SWEEP_H
#define HOLDFAST_SWEEP_H

#include "holdfast/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Why a run ended. Each row: constant, name, description. */
#define HF_SWEEP_STOP_TABLE(ROW)                                               \
    ROW(DONE, "done", "there was nothing more to do")                          \
    ROW(ACTIVITY, "activity", "this client started an operation")              \
    ROW(PEERS, "other_process", "another process changed the store")           \
    ROW(CONFLICT, "conflict", "another client changed what it was working on") \
    ROW(OPS, "max_ops", "it reached the limit on entries")                     \
    ROW(TIME, "max_runtime", "it reached the limit on time")                   \
    ROW(CANCELLED, "cancelled", "the caller stopped it")                       \
    ROW(BUSY, "busy", "another sweep is running in this process")              \
    ROW(FAILED, "failed", "the store failed")
#define HF_SWEEP_STOP_ENUM_(name, word, text) HF_SWEEP_STOP_##name,
enum hf_sweep_stop { HF_SWEEP_STOP_TABLE(HF_SWEEP_STOP_ENUM_) HF_SWEEP_STOP_COUNT };
#undef HF_SWEEP_STOP_ENUM_

/* Returns the name of a reason, such as "max_ops", and its description. */
HF_API const char *hf_sweep_stop_name(enum hf_sweep_stop stop);
HF_API const char *hf_sweep_stop_text(enum hf_sweep_stop stop);

/* The work of one run, or of all runs together. With dry_run, the work that a run would do,
 * excluding partitions. */
struct hf_sweep_report {
    size_t struct_size;
    uint64_t runs;
    uint64_t namespaces;      /* covered by the last run */
    uint64_t ops;             /* entries examined; a partition counts as one */
    uint64_t leases_cleared;  /* leases proven to have ended */
    uint64_t stages_settled;  /* stages of ended transactions, published or dropped */
    uint64_t rolled_back;     /* undecided transactions */
    uint64_t markers_deleted; /* records of transactions */
    uint64_t entries_deleted; /* of the expiry index */
    uint64_t entries_moved;   /* to a later hour of the expiry index */
    uint64_t tables_purged;
    uint64_t states_deleted; /* unreferenced states of keys */
    uint64_t bodies_deleted; /* unreferenced bodies of fenced objects */
    uint64_t outputs_condemned, chunks_deleted, names_dropped; /* of compaction */
    uint64_t failed;              /* entries that failed, left for a later run */
    uint64_t stopped_by_activity; /* runs that stopped because of other activity */
    int64_t duration_ms;
    enum hf_sweep_stop stop; /* why the last run ended */
};
#define HF_SWEEP_REPORT                                                                      \
    HF_VALUE_(hf_sweep_report, sizeof(struct hf_sweep_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
              0, 0, 0, 0, 0, 0, 0, 0, HF_SWEEP_STOP_DONE)

struct hf_sweep_options {
    size_t struct_size;
    bool full;              /* examine everything, without the expiry index */
    bool dry_run;           /* change nothing; report what a run would do */
    bool all_namespaces;    /* false: only the namespace of the client */
    int64_t op_delay_ms;    /* pause between entries; up to one minute */
    uint64_t ops_max;       /* maximum number of entries; 1 to 1,000,000,000 */
    int64_t runtime_max_ms; /* no work is started that would exceed this; 1 ms to a week */

    /* Each is optional. `progress` is called between entries; return false to stop the run with
     * HF_CANCELLED. `failed` is called for each entry that failed. */
    bool (*progress)(void *argument, const struct hf_sweep_report *so_far);
    void (*failed)(void *argument, const char *about, const struct hf_error *why);
    void *argument;
};
#define HF_SWEEP_OPTIONS                                                                 \
    HF_VALUE_(hf_sweep_options, sizeof(struct hf_sweep_options), false, false, false, 0, \
              1000000, 3600000, NULL, NULL, NULL)

/* Runs one sweep now. The store records where the run stopped and what it did (best effort); a dry
 * run records nothing. `options` and `report` may be NULL; the report is set regardless of the
 * status.
 *
 * Returns HF_OK if the run ended; report->stop contains the reason. HF_SWEEP_STOP_BUSY means that
 * another run is under way in this process, and nothing was done. Returns HF_INVALID if an option
 * is out of range, and HF_CANCELLED if `progress` stopped the run. Other statuses come from the
 * store; the work done before the failure is kept. */
HF_API enum hf_status hf_sweep(struct hf_client *client, const struct hf_sweep_options *options,
                               struct hf_sweep_report *report, struct hf_error *error);

/* ---- Background sweeps --------------------------------------------------------------- */

struct hf_sweeper;

struct hf_sweeper_options {
    size_t struct_size;
    int64_t idle_grace_ms; /* 10 ms to a week */
    int64_t op_delay_ms;
    uint64_t ops_max;
    int64_t runtime_max_ms;
    bool all_namespaces;
    /* Record each run in the store for hf_sweep_status: one get and one put. */
    bool remember;

    /* Optional. Called after each run, from the sweeper's thread. Must not stop the sweeper. */
    void (*ran)(void *argument, const struct hf_sweep_report *run);
    void *argument;
};
#define HF_SWEEPER_OPTIONS                                                                     \
    HF_VALUE_(hf_sweeper_options, sizeof(struct hf_sweeper_options), 300000, 100, 1000, 30000, \
              false, false, NULL, NULL)

/* Starts a thread that sweeps according to the idle rule. `options` may be NULL. An entry that
 * fails in one run is retried by the next. Returns HF_INVALID if an option is out of range, and
 * HF_UNAVAILABLE if the thread cannot be created or memory runs out. */
HF_API enum hf_status hf_sweeper_start(struct hf_client *client,
                                       const struct hf_sweeper_options *options,
                                       struct hf_sweeper **ret_sweeper, struct hf_error *error);

/* Stops a sweeper, after at most one more entry, and frees it. Does nothing if `sweeper` is
 * NULL. */
HF_API void hf_sweeper_stop(struct hf_sweeper *sweeper);

/* Returns the sum of the runs so far. Local. */
HF_API enum hf_status hf_sweeper_report(struct hf_sweeper *sweeper,
                                        struct hf_sweep_report *report, struct hf_error *error);

/* Returns true if the store reports changes by other processes. A sweeper can then wait until these
 * changes stop. Returns false if `client` is NULL. Local. */
HF_API bool hf_sweep_sees_others(struct hf_client *client);

/* ---- Due work and recorded runs ------------------------------------------------------ */

/* The entries of the expiry index that a run would find, counted up to a limit. */
struct hf_sweep_due {
    size_t struct_size;
    uint64_t lease_hours, lease_entries; /* for hours that have passed */
    uint64_t txn_hours, txn_entries;
    uint64_t later_hours; /* hours that have not passed yet */
    bool more;            /* there are more entries than were counted */
    /* When the last recorded run ended, since 1970, by the wall clock of its machine; 0: never. */
    int64_t last_ms;
};
#define HF_SWEEP_DUE \
    HF_VALUE_(hf_sweep_due, sizeof(struct hf_sweep_due), 0, 0, 0, 0, 0, false, 0)

/* Reports the due work and the recorded runs. Changes nothing. `last` is the last recorded run of
 * any client, and `total` is the sum of all recorded runs; both may be NULL. Without
 * all_namespaces, only runs over the client's namespace are counted. Error statuses come from the
 * store. */
HF_API enum hf_status hf_sweep_status(struct hf_client *client, bool all_namespaces,
                                      struct hf_sweep_due *due, struct hf_sweep_report *last,
                                      struct hf_sweep_report *total, struct hf_error *error);

/* Lists the namespaces that a run covers, in byte order: namespaces with tables or an epoch, and
 * the client's own namespace. Return false from `each` to stop. Returns HF_UNAVAILABLE if there are
 * too many namespaces. */
HF_API enum hf_status hf_sweep_namespaces(struct hf_client *client, bool all_namespaces,
                                          bool (*each)(void *argument, const char *ns),
                                          void *argument, struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
