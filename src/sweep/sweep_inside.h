/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_inside.h: private to this folder: a run in progress. */
#ifndef SWEEP_SWEEP_INSIDE_H
#define SWEEP_SWEEP_INSIDE_H

#include "lock/expiry.h"
#include "store/pages.h"
#include "sweep/sweep.h"

/* A namespace as a run knows it. */
struct run_space {
    bool epoch_known, epoch_raised;
    uint64_t epoch; /* tables that are created from now on have no tokens below it */
};

/* A run. It counts in `report`, and ends when `stopped` is set; `stop` is the reason. */
struct sweep_run {
    struct hf_client *caller; /* the client that requested the run */
    /* The client of the namespace that is being swept: the caller's, or one of the run's own. */
    struct hf_client *client;
    struct sweep_names names; /* the namespaces that it covers ... */
    struct run_space *spaces; /* ... and what it knows about each */
    struct run_space *space;  /* the one of `client` */
    const struct sweep_options *options;
    struct sweep_cursor *cursor;
    struct sweep_report *report;
    struct mono_time began, end;
    uint64_t activity;  /* operations that callers had begun before the run */
    uint64_t conflicts; /* refused writes before the run; then, those of clients it closed */
    uint64_t conflicts_noted;
    bool peers_known; /* whether `peers` is known: changes by other processes before the run */
    uint64_t peers;
    bool again; /* dry run: another part of the run counts this too */
    bool stopped;
    enum hf_sweep_stop stop;
    struct mono_time entry_began; /* when the current step began */
    struct span longest;          /* how long the longest entry or page took so far */
    unsigned failures_in_row;
    struct hf_error trouble; /* the store's failure that ended the run */
    int64_t raised_before;   /* the hour in which an earlier run raised epochs */
};

/* ---- Continuing (sweep.c) ------------------------------------------------------------ */

/* Whether the run may continue. It starts no step that would last beyond its end if it took as
 * long as the longest step so far. */
bool run_goes_on(struct sweep_run *run);

/* Reads the next page of a listing. False if there is none, or if the run must stop. */
bool run_page(struct sweep_run *run, struct pages *pages);

/* Must be called before each entry. Pauses as long as necessary, then counts the entry. False if
 * the run must stop. */
bool run_next(struct sweep_run *run);

/* Notes the result of an entry, for the named object or partition. A failed entry is left for a
 * later run. If many entries in a row fail, the store is assumed to be failing, and the run
 * ends. */
void run_note(struct sweep_run *run, struct view about, enum hf_status status,
              const struct hf_error *error);

/* The deadline of a request: no later than the end of the run. */
struct mono_time run_deadline(const struct sweep_run *run);

struct evidence run_evidence(struct sweep_run *run);

/* The lowest epoch that a table created from now on can have. If it is not above `above`, the
 * epoch is raised, but at most once per run and once per hour. So the result may still not be
 * above `above`. */
enum hf_status run_epoch(struct sweep_run *run, uint64_t above, uint64_t *ret_epoch,
                         struct hf_error *error);

/* ---- Namespaces (spaces.c) ----------------------------------------------------------- */

enum hf_status spaces_open(struct sweep_run *run, struct hf_error *error);
void spaces_close(struct sweep_run *run);

/* Continues with this namespace, which is one of run->names. These include the caller's own. */
enum hf_status space_enter(struct sweep_run *run, size_t index, struct hf_error *error);

void space_leave(struct sweep_run *run);

/* The namespace of a key, by its first segment; false if the key is in none of the run's
 * namespaces. */
bool space_of_key(const struct sweep_run *run, struct view key, size_t *ret_index);

/* How many writes of this run were refused so far. */
uint64_t spaces_conflicts(const struct sweep_run *run);

/* Copies a key into a cursor. */
void cursor_set(char cursor[KEY_BYTES_MAX + 1], struct view key);

/* ---- Hours (walk.c) ------------------------------------------------------------------ */

/* Handles one entry of an index; `etag` is the ETag in the listing. */
typedef enum hf_status walk_visit(struct sweep_run *run, struct view key,
                                  const struct etag *etag, struct hf_error *error);

/* Visits the entries of an index whose hours have fully passed, starting at the cursor. The cursor
 * is advanced and, at the end, cleared. `folder` ends with a slash. */
enum hf_status walk_hours(struct sweep_run *run, struct view folder,
                          char cursor[KEY_BYTES_MAX + 1], walk_visit *visit,
                          struct hf_error *error);

/* Deletes an entry, on condition of its ETag if the store supports this. Also returns OK if the
 * entry has changed or is gone. *ret_deleted: we deleted it, as far as we know. */
enum hf_status entry_delete(struct sweep_run *run, struct view key, const struct etag *etag,
                            bool *ret_deleted, struct hf_error *error);

/* ---- Tables (tables.c) --------------------------------------------------------------- */

/* What the sweeper needs to know about a table. */
struct table_summary {
    size_t over; /* active leases that are proven to have ended, and not cleared yet */
    size_t held; /* the other active leases */
    bool waited; /* it has waiters */
    /* The hour in which the last held lease ends; the current hour if there are none. */
    struct hour hour;
    /* It has a stage without a transaction whose lease is not active. The stage is to be
     * dropped. */
    bool loose;
    bool taken; /* it has a transaction's stage without an active lease: to be settled */
    size_t old; /* bodies that are to be deleted */
    bool stub;  /* nothing but tokens would be lost with it */
    uint64_t next_token;
    struct etag etag; /* empty: unknown */
    bool written;     /* we have just written it, so no client has seen this ETag before */
};

/* Whether an active lease is proven to have ended. */
bool table_lease_over(const struct sweep_run *run, const struct lease_table *table,
                      const struct lease *lease, const struct evidence *evidence);

/* Reads a table, with one get; NOT_FOUND if there is none. */
enum hf_status table_summarize(struct sweep_run *run, struct table_ref *ref,
                               struct table_summary *ret_summary, struct hf_error *error);

/* Clears the leases of a table that are proven to have ended, settles its stages, and returns its
 * summary afterwards. Takes one get, and one put if there is something to clear. A dry run only
 * reads and counts. */
enum hf_status table_clear(struct sweep_run *run, struct table_ref *ref,
                           struct table_summary *ret_summary, struct hf_error *error);

/* Deletes a stub that had the ETag `known` D ago, if it still has this ETag. CONFLICT: it has
 * another ETag, or tokens of the current epoch. */
enum hf_status stub_purge(struct sweep_run *run, struct view table_key,
                          const struct table_summary *summary, const struct etag *known,
                          struct hf_error *error);

/* The hour in which a stub that was found now is to be checked again. */
struct hour hour_of_purge(const struct hf_client *client, const struct evidence *evidence);

/* The name of a key, from the key of its table; false for any other table. */
bool table_key_name(const struct hf_client *client, struct view table_key,
                    struct view *ret_name);

/* ---- Sights (sights.c) --------------------------------------------------------------- */

/* For stores without timestamps: whether a sweep is known to have seen the object at least this
 * long ago. If the object was not seen before, notes that it was seen now. */
enum hf_status sight_passed(struct sweep_run *run, struct view about, struct span span,
                            bool *ret_passed, struct hf_error *error);
enum hf_status sight_forget(struct sweep_run *run, struct view about, struct hf_error *error);

/* ---- Parts of a run ------------------------------------------------------------------ */

enum hf_status sweep_leases(struct sweep_run *run, struct hf_error *error);
enum hf_status sweep_records(struct sweep_run *run, struct hf_error *error);
enum hf_status sweep_partitions(struct sweep_run *run, struct hf_error *error);
enum hf_status sweep_everything(struct sweep_run *run, struct hf_error *error);

/* Handles a record that was found by its entry or in a full listing: purges it if it is due. A dry
 * run only reads and counts. *ret_gone: the record no longer exists. */
enum hf_status record_clear(struct sweep_run *run, struct view id, bool *ret_gone,
                            struct hf_error *error);

/* "<ns>/.lease-index/" */
void expiry_folder(struct view ns, char ret_key[KEY_BYTES_MAX + 1]);

#endif
