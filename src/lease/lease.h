/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h: one lease in a document, and the decision whether it has ended.
 *
 * A lease is immutable. To change a lease, a new one is encoded and replaces it. So the fields of
 * a lease and its bytes in the document never differ, and unknown members are preserved. Two
 * tables decoded from the same document may share a lease, which is reference-counted. Only one
 * task at a time uses a document and the tables decoded from it, so the count needs no lock.
 *
 * A request consists of the requester and the terms of the lease that it asks for: scopes, mode,
 * slots, level and ttl (`struct lease_wish`). When a request is granted, it becomes a lease. A
 * waiter is a request in a document's queue. A queue may have a thousand waiters that mostly want
 * the same thing, so waiters can share their terms.
 *
 * Pure: no clock, no store. Everything known about time is passed in as evidence. */
#ifndef LEASE_LEASE_H
#define LEASE_LEASE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/evidence.h"
#include "base/moment.h"
#include "base/stamp.h"
#include "lease/scope.h"

/* ---- Settings ------------------------------------------------------------------------ */

/* Safety margins, kept in each document. To decide whether a lease has ended, a client uses the
 * more careful of the document's settings and its own. */
struct lease_settings {
    /* The maximum drift between the boot-time clocks of two machines. */
    uint32_t drift_ppm;
    struct span margin;         /* a reserve that is added to each wait */
    struct span skew_tolerance; /* the store's front ends agree within half of this */
    struct span ttl_max;        /* the longest ttl of a lease */
    struct span late_bound;     /* D: an abandoned request takes effect within D, if ever */
    bool watch_only;            /* takeover=observed: store time proves nothing */
};

#define LEASE_TTL_MS_MIN HF_TTL_MS_MIN

/* The maximum ttl, regardless of what a table or a client allows. */
#define LEASE_TTL_MAX SPAN_MS(HF_TTL_MS_MAX)

/* Whether a caller's value in milliseconds is a valid ttl: OK, or INVALID. */
enum hf_status ttl_ms_check(int64_t ttl_ms, struct hf_error *error);

/* The default settings for network stores. */
struct lease_settings lease_settings_default(void);

/* Each setting is the more careful of the two values. */
struct lease_settings lease_settings_stricter(const struct lease_settings *a,
                                              const struct lease_settings *b);

/* ---- A lease ------------------------------------------------------------------------- */

enum lease_mode { LEASE_EXCLUSIVE, LEASE_SHARED, LEASE_SLOTS };

/* An active lease may change to any other status. No other status ever changes. */
enum lease_status {
    LEASE_ACTIVE,
    LEASE_COMPLETED,
    LEASE_FAILED,
    LEASE_RELEASED,
    LEASE_EXPIRED,
    LEASE_BROKEN,
};

const char *lease_status_name(enum lease_status status);

#define HOLDER_BYTES_MAX 256
#define OUTPUT_BYTES_MAX 1024
#define NOTE_BYTES_MAX   1024

/* The terms that a request asks for. */
struct lease_wish {
    struct scope *scopes;
    size_t scope_count; /* 0: covers everything in its table (a barrier) */
    enum lease_mode mode;
    uint64_t slots; /* with LEASE_SLOTS: the number of holders at a time */
    uint64_t level;
    struct span ttl;  /* zero in files written by other programs */
    struct span poll; /* of a waiter: its poll interval; zero in a lease */
};

/* A request: the requester, and the terms that it asks for. */
struct lease_request {
    struct view id;
    struct view holder;  /* a label for people */
    struct view session; /* of the requesting client */
    struct view place;   /* of a waiter: where its session can be looked up, or empty */
    struct view output;  /* the object that the holder is going to write */
    struct view note;    /* JSON, or empty */
    struct view unknown; /* unknown members, each with a comma before it */
    struct lease_wish wish;
};

/* The fields of a lease. Views point into `bytes` or `unescaped`, or before lease_new into the
 * caller's memory. */
struct lease {
    struct view id;
    struct view holder;  /* a label for people */
    struct view session; /* of the client that holds it */
    struct view place;   /* empty: only a waiter has one */
    struct view nonce;   /* of the attempt that last granted or renewed it */
    struct view clock;   /* the clock of `expires`; empty in files written by other programs */
    struct view output;  /* the object that the holder is going to write */
    struct view note;    /* JSON, or empty */
    struct lease_wish wish;
    uint64_t token;
    enum lease_status status;
    uint64_t renewals;
    struct wall_time acquired_at, expires_at; /* for display */
    struct store_time expires;                /* on `clock` */
    struct store_time ended;                  /* on `clock`; when it ended, if it has */
    /* The period of `once_per`, for which a completion is kept; 0 if none was requested. */
    struct span once_per;
    struct stamp granted; /* the time of the grant, if it has a period; renewals keep it */
    struct view unknown;  /* unknown members, each with a comma before it */

    struct mono_time seen; /* when we first saw it unchanged, on our boot-time clock */
    struct view bytes;     /* the JSON object */
    struct view entry;     /* the lease as it appears in a table: ",\n", its name, the bytes */
    struct buffer unescaped;
    size_t users;
};

/* Terms that several waiters share. */
struct wanted {
    struct lease_wish wish;
    struct view bytes; /* the JSON object */
    struct buffer unescaped;
    size_t users;
};

/* A waiter in the queue of a table. Like a lease, it is immutable. */
struct waiter_entry {
    struct lease_request asked;
    struct wanted *like; /* the shared terms; NULL: it has its own */
    struct view bytes;
    struct view entry; /* the waiter as it appears in a table: ",\n", the bytes */
    struct buffer unescaped;
    size_t users;
};

#define LEASE_BYTES_MAX  ((size_t)256 * 1024)
#define LEASE_SCOPES_MAX 1024

/* Decodes one lease in a document. `name` is the lease's member name, which must equal its id. */
enum hf_status lease_decode(struct view name, struct view bytes, struct lease **ret_lease,
                            struct hf_error *error);

/* Decodes one waiter. If its bytes contain no terms, it shares the terms `like`. If `like` is NULL
 * too, the document is corrupt. */
enum hf_status waiter_decode(struct view bytes, struct wanted *like,
                             struct waiter_entry **ret_waiter, struct hf_error *error);
enum hf_status wanted_decode(struct view bytes, struct wanted **ret_wanted,
                             struct hf_error *error);

/* The fields of the lease that a request asks for. */
struct lease lease_asked(const struct lease_request *asked);

enum hf_status lease_new(const struct lease *fields, struct lease **ret_lease,
                         struct hf_error *error);

/* Unless `like` is NULL, the waiter shares those terms. */
enum hf_status waiter_new(const struct lease_request *asked, struct wanted *like,
                          struct waiter_entry **ret_waiter, struct hf_error *error);
enum hf_status wanted_new(const struct lease_wish *wish, struct wanted **ret_wanted,
                          struct hf_error *error);

/* The share functions add a reference. Each reference must be freed. Freeing NULL is allowed. */
struct lease *lease_share(struct lease *lease);
void lease_free(struct lease *lease);
struct waiter_entry *waiter_share(struct waiter_entry *waiter);
void waiter_free(struct waiter_entry *waiter);
struct wanted *wanted_share(struct wanted *wanted);
void wanted_free(struct wanted *wanted);

/* Whether the holder did not change the lease between the two: same grant, same renewals. The
 * status is not compared, because it may have been changed in a body that was never written. If
 * such a change counted, each conflict during a takeover would restart the observation. */
bool lease_unchanged(const struct lease *a, const struct lease *b);

/* Whether leases with these terms conflict. Also true for two leases on the same semaphore,
 * although these conflict only if no slot is free (wishes_share_slots). */
bool wishes_conflict(const struct lease_wish *a, const struct lease_wish *b);

/* Whether the two have the same scopes, in any order. */
bool wishes_same_scopes(const struct lease_wish *a, const struct lease_wish *b);

/* The minimum age of a completed lease, for checking `once_per`. */
struct span once_per_age(const struct lease *lease, const struct evidence *evidence);

/* Whether both conflict with exactly the same requests. */
bool wishes_alike(const struct lease_wish *a, const struct lease_wish *b);

/* ---- Has it ended? ------------------------------------------------------------------- */

enum lease_proof {
    PROOF_NONE,       /* it may still be held */
    PROOF_STORE_TIME, /* the store time is past its end by more than the tolerance */
    PROOF_WATCHED,    /* it was unchanged for longer than its holder could use it */
};

/* The only way to decide that an active lease has ended. */
enum lease_proof lease_judge(const struct lease_settings *settings, const struct lease *lease,
                             const struct evidence *evidence);

/* How long a lease must be seen unchanged: longer than its holder can use it. */
struct span lease_watch_span(const struct lease_settings *settings, const struct lease *lease);

/* When, on our boot-time clock, there will be a proof if nothing changes, and which kind. */
struct mono_time lease_provable_at(const struct lease_settings *settings,
                                   const struct lease *lease, const struct evidence *evidence,
                                   enum lease_proof *ret_proof);

/* Leases of up to `ttl` may be granted and renewed until `until` on the store's clock (clock 0:
 * forever). The limit is recorded outside the table (src/lock/limits.h). It tells a client that
 * replaces a damaged table how long the unreadable leases may last. If `ttl` is 0, no limit is
 * known. */
struct ttl_limit {
    struct span ttl;
    struct stamp until;
};

/* Whether a lease of this ttl may be granted by an attempt with this evidence. */
bool ttl_limit_allows(const struct ttl_limit *limit, const struct lease_settings *settings,
                      struct span ttl, const struct evidence *evidence);

/* Until when, on its own boot-time clock, the holder may use a lease that was granted or renewed
 * by an attempt that began at t0 with this evidence. */
struct mono_time lease_valid_until(const struct lease_settings *settings, struct span ttl,
                                   const struct evidence *evidence);

/* ---- For display --------------------------------------------------------------------- */

/* The time that an active lease has left, as far as is known; negative if it has passed. */
struct span lease_left(const struct lease *lease, const struct evidence *evidence);

/* OVER: there is a proof, so any client may take it over. OVERDUE: its time has passed, but there
 * is no proof. Otherwise, the lease's own status. */
enum hf_lease_state lease_shown_state(const struct lease_settings *settings,
                                      const struct lease *lease,
                                      const struct evidence *evidence);

/* How long the lease was held, or has been held so far, by the wall clock; never negative. */
struct span lease_held(const struct lease *lease, const struct evidence *evidence);

/* Whether it is a barrier: it has no holder, and nothing is granted until it ends. */
bool lease_is_barrier(const struct lease *lease);

#endif
