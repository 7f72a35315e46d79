/* sweep_inside.h: what the files of this folder have in common: a run that is under way. */
#ifndef SWEEP_SWEEP_INSIDE_H
#define SWEEP_SWEEP_INSIDE_H

#include "lock/expiry.h"
#include "store/pages.h"
#include "sweep/sweep.h"

/* A namespace, as a run knows it. */
struct run_space {
    bool epoch_known, epoch_raised;
    uint64_t epoch; /* no table is born there from now on with tokens below it */
};

/* A run. Its counts go to `report`; it ends when `stopped`, and `stop` says why. */
struct sweep_run {
    struct hf_client *caller; /* whose run it is */
    struct hf_client
        *client; /* of the namespace that is being swept: the caller's, or its own */
    struct sweep_names names; /* the namespaces that it covers ... */
    struct run_space *spaces; /* ... and what it knows of each */
    struct run_space *space;  /* that of `client` */
    const struct sweep_options *options;
    struct sweep_cursor *cursor;
    struct sweep_report *report;
    struct mono_time began, end;
    uint64_t activity;  /* operations that callers had begun before it */
    uint64_t conflicts; /* as many there were before it; those of clients that it has closed: */
    uint64_t conflicts_noted;
    bool peers_known; /* how the store stood as for the changes of other processes: */
    uint64_t peers;
    bool again; /* what is looked at in a dry run was, or will be, by another part of it */
    bool stopped;
    enum hf_sweep_stop stop;
    struct mono_time entry_began; /* the one that is being dealt with */
    struct span longest;          /* so long took the longest entry or page */
    unsigned failures_in_row;
    struct hf_error trouble; /* the store's, which ended the run */
    int64_t raised_before;   /* the hour in which an earlier run has raised epochs */
};

/* ---- Going on (sweep.c) -------------------------------------------------------------- */

/* Whether nothing has stopped the run. Nothing is begun that would last beyond its end if it took
 * as long as the longest so far. */
bool run_goes_on(struct sweep_run *run);

/* The next page of a listing; false also when the run is to stop. */
bool run_page(struct sweep_run *run, struct pages *pages);

/* To be asked before each entry: waits as long as it has to, then counts it. False: stop. */
bool run_next(struct sweep_run *run);

/* What came of an entry, of the object or partition that is named. One that failed is left for a
 * later run; when many fail in a row it is the store that fails, and the run is over. */
void run_note(struct sweep_run *run, struct view about, enum hf_status status,
              const struct hf_error *error);

/* For a request: no later than the end of the run. */
struct mono_time run_deadline(const struct sweep_run *run);

struct evidence run_evidence(struct sweep_run *run);

/* The epoch that every table is born in from now on. It is raised if it is not above the given one,
 * once a run, and not if a run of this hour has done so: then it may be no higher than that. */
enum hf_status run_epoch(struct sweep_run *run, uint64_t above, uint64_t *ret_epoch,
                         struct hf_error *error);

/* ---- Namespaces (spaces.c) ----------------------------------------------------------- */

enum hf_status spaces_open(struct sweep_run *run, struct hf_error *error);
void spaces_close(struct sweep_run *run);

/* Goes on with this namespace, one of run->names; and with the caller's, which is among them. */
enum hf_status space_enter(struct sweep_run *run, size_t index, struct hf_error *error);

void space_leave(struct sweep_run *run);

/* The one that a key is in, by its first name; false when it is in none of them. */
bool space_of_key(const struct sweep_run *run, struct view key, size_t *ret_index);

/* Writes of this run that were refused so far. */
uint64_t spaces_conflicts(const struct sweep_run *run);

/* Copies a key into a cursor. */
void cursor_set(char cursor[KEY_BYTES_MAX + 1], struct view key);

/* ---- Hours (walk.c) ------------------------------------------------------------------ */

/* One entry of an index; `etag` is that which the listing showed. */
typedef enum hf_status walk_visit(struct sweep_run *run, struct view key,
                                  const struct etag *etag, struct hf_error *error);

/* Visits the entries of the hours of an index that are wholly over, from the cursor on, which is
 * moved along, and emptied at the end. `folder` ends with a slash. */
enum hf_status walk_hours(struct sweep_run *run, struct view folder,
                          char cursor[KEY_BYTES_MAX + 1], walk_visit *visit,
                          struct hf_error *error);

/* Deletes an entry, on condition of its ETag where the store can; OK also when it is another by
 * now, or gone. *ret_deleted: it is gone by our doing, as far as we know. */
enum hf_status entry_delete(struct sweep_run *run, struct view key, const struct etag *etag,
                            bool *ret_deleted, struct hf_error *error);

/* ---- Tables (tables.c) --------------------------------------------------------------- */

/* What a sweeper wants to know of a table. */
struct table_sight {
    size_t over;      /* leases that are provably over, and not cleared yet */
    size_t held;      /* those that are not */
    bool waited;      /* somebody stands in line */
    struct hour hour; /* in which the last of those ends, and that of now when there are none */
    bool loose;       /* a stage of no transaction, whose lease is not active: to be dropped */
    bool taken;       /* a stage of a transaction, whose lease is not active: to be settled */
    size_t old;       /* bodies that are to be deleted */
    bool stub;        /* nothing but tokens would be lost with it */
    uint64_t next_token;
    struct etag etag; /* empty: not known */
    bool written;     /* by us, just now: nobody has seen this ETag before */
};

/* Whether an active lease is provably over. */
bool table_lease_over(const struct sweep_run *run, const struct lease_table *table,
                      const struct lease *lease, const struct evidence *evidence);

/* Looks at a table; NOT_FOUND when there is none. One get. */
enum hf_status table_see(struct sweep_run *run, struct place *place,
                         struct table_sight *ret_sight, struct hf_error *error);

/* Clears a table as far as there is proof, settles what is staged there, and tells how it stands
 * then. One get; one put if there is something to clear. With dry_run only looks, and counts. */
enum hf_status table_clear(struct sweep_run *run, struct place *place,
                           struct table_sight *ret_sight, struct hf_error *error);

/* Deletes a stub that had this ETag D ago, if it still has. CONFLICT: it has another, or tokens of
 * the epoch of now. */
enum hf_status stub_purge(struct sweep_run *run, struct view table_key,
                          const struct table_sight *sight, const struct etag *known,
                          struct hf_error *error);

/* The hour in whose entries a stub of now is looked at again. */
struct hour hour_of_purge(const struct hf_client *client, const struct evidence *evidence);

/* The name of a key, of the key of its table; false when it is the table of something else. */
bool table_key_name(const struct hf_client *client, struct view table_key,
                    struct view *ret_name);

/* ---- Sights (sights.c) --------------------------------------------------------------- */

/* For stores without dates: whether the object was met by a sweep so long ago for certain. When it
 * was not met before, that is noted. */
enum hf_status sight_passed(struct sweep_run *run, struct view about, struct span span,
                            bool *ret_passed, struct hf_error *error);
enum hf_status sight_forget(struct sweep_run *run, struct view about, struct hf_error *error);

/* ---- What a run is made of ----------------------------------------------------------- */

enum hf_status sweep_leases(struct sweep_run *run, struct hf_error *error);
enum hf_status sweep_records(struct sweep_run *run, struct hf_error *error);
enum hf_status sweep_partitions(struct sweep_run *run, struct hf_error *error);
enum hf_status sweep_everything(struct sweep_run *run, struct hf_error *error);

/* A record whose entry, or itself, was found: purges it if its time has come. With dry_run only
 * looks, and counts. *ret_gone: there is none any more. */
enum hf_status record_clear(struct sweep_run *run, struct view id, bool *ret_gone,
                            struct hf_error *error);

/* "<ns>/.lease-index/" */
void expiry_folder(struct view ns, char ret_key[KEY_BYTES_MAX + 1]);

#endif
