/* SPDX-License-Identifier: Apache-2.0 */
/* lock.h: declarations that the lock commands share. hold.c acquires, renews and releases locks;
 * locks.c lists, shows and breaks leases; locks_watch.c watches them, and locks_timeline.c shows
 * who held one when; keep.c holds a lock for a script; fenced.c reads and writes fenced objects;
 * text.c describes leases. */
#ifndef CLI_LOCK_LOCK_H
#define CLI_LOCK_LOCK_H

#include "base/parse.h"
#include "cli/output/grid.h"

/* Whether a string is a lease ("TOKEN:ID:TABLE"), or "-" for a lease on stdin, and not a scope. */
bool is_lease_text(const char *text);

/* The text of a lease: `given` itself; the first line of stdin if `given` is "-"; $HOLDFAST_LEASE
 * if `given` is NULL. *ret_text is NULL if that variable is not set. */
enum hf_status lease_text(struct cli *cli, const char *given, const char **ret_text);

/* Adopts the lease with this text (see lease_text), using a client of its namespace. With `renew`,
 * the keeper renews the lease until it is released or detached. */
enum hf_status lease_adopt(struct cli *cli, const char *text, bool renew,
                           struct hf_lock **ret_lock);

/* Reads --ttl and, for commands with modes, --mode and --slots, and --once-per and --slack if the
 * command has them. */
enum hf_status lock_options(struct cli *cli, bool has_modes, struct hf_lock_options *options);

/* A wait that runs on its own thread, while the calling thread watches for signals. */
struct wait_call {
    enum hf_status (*acquire)(void *argument, int64_t wait_ms, struct hf_error *error);
    void *argument;
    struct hf_lock *lock; /* the lock to acquire, ... */
    struct hf_txn *txn;   /* ... or, unless NULL, the transaction that acquires it */
    bool (*gives_up)(void *argument); /* whether to end the wait, as a signal does; or NULL */
};

/* Reports once why the store does not reply, for example because a disk is full. `trouble` and
 * `why` are the results of hf_lock_trouble, and `told` is the last return value of this function.
 * True once the problem has been reported. */
bool tell_trouble_once(struct cli *cli, enum hf_status trouble, const struct hf_error *why,
                       bool told);

/* Makes the call, and waits for it according to --wait or --no-wait. A signal ends the wait. */
enum hf_status wait_in_line(struct cli *cli, const struct wait_call *call);

/* Acquires a lock, and waits for it according to --wait or --no-wait. A signal ends the wait. If
 * other clients hold the lock, the error names them. */
enum hf_status lock_acquire(struct cli *cli, struct hf_lock *lock);

/* The lease of a held lock, as commands print it. */
struct told_lease {
    char lease[HF_LEASE_TEXT_MAX];
    uint64_t token;
    int64_t ttl_ms, expires_in_ms;
    const char **scopes; /* valid as long as the cli */
    size_t scope_count;
};
extern const struct field told_lease_record[];
extern const struct field told_grant_record[]; /* without the scopes */
enum hf_status told_lease_fill(struct cli *cli, struct hf_lock *lock, struct told_lease *told);

/* Prints the lease of a held lock, and frees the handle. Only the reader of the output can release
 * the lease later. The lock is therefore detached if the lease was printed, and released if
 * printing failed. */
enum hf_status lease_hand_over(struct cli *cli, struct hf_lock *lock);

/* Appends "deploy has been held by node-1 (token 7) for 3s; the lease expires in 27s unless
 * renewed". */
void append_holder(struct buffer *to, const struct hf_lease_info *lease);

/* Adds a conflicting lease to the JSON of a refusal. The first lease sets `holder`, `scope` and
 * `expires_in_ms`; every lease is an item in the list `leased`. `retry_after_ms` is the time until
 * all of them can be taken over, unless they are renewed. `wanted` may be NULL. */
void refusal_add_lease(json_t **refusal, const struct hf_lease_info *lease, const char *wanted);

/* Appends the holder of a conflicting lease; nothing if no conflicting lease is found. */
void append_blocker(struct buffer *to, struct hf_lock *lock);

/* Replaces an error that only says "held" with an error that names the holders. For --json, also
 * records which client holds the lock or has already completed the work, and when to retry. Sets
 * cli->conflict. */
void lock_explain(struct cli *cli, struct hf_lock *lock);

/* The `proceed` callback of lists: true until a signal arrives. */
bool not_interrupted(void *argument);

/* "joe@host": the holder id and the author of audit entries. */
#define USER_TEXT_MAX 200
const char *user_text(char text[USER_TEXT_MAX]);

/* "joe". */
const char *user_name(char text[USER_TEXT_MAX]);

/* Names, in an arena. */
struct names {
    struct arena *arena;
    const char **names;
    size_t count, room;
    bool no_memory;
};

/* Adds a copy. Returns false if memory is exhausted. */
bool names_add(struct names *names, struct view name);

/* A span rounded down to seconds, or to milliseconds below a second: "1h2m3s", "250ms". */
const char *brief_text(struct span span, char text[SPAN_TEXT_MAX]);

/* Whether the table lists the lease as held, even if it has expired. */
bool lease_is_active(const struct hf_lease_info *lease);

/* Appends "deploy", "tree:/a", "chunk:a and 3 more"; for a barrier "everything in TABLE". */
void append_scopes(struct buffer *to, const struct hf_lease_info *lease);

/* Appends "blocked: the table was damaged and replaced at 14:03 UTC; free again in 59s". */
void append_barrier(struct buffer *to, const struct hf_lease_info *lease);

/* A lease or a waiter, with all its members. */
extern const struct field lease_record[];

/* The columns of `locks ls --all`, and their row. Without --all, the first column is omitted. */
#define LEASE_TITLES "STATE\tSCOPE\tMODE\tHOLDER\tTOKEN\tHELD\tEXPIRES\tWAITERS"
extern const char lease_row[];

#endif
