/* lease.h: one lease, as it stands in a document, and the judgement whether it is over.
 *
 * A lease is immutable. To change it a new one is encoded and takes its place, so what a lease
 * says and its bytes in the document never differ, and members that we do not know survive. So
 * two readings of one document may have it in common; it counts who uses it. One task at a time
 * uses a document and all that was read from it, so the count needs no lock.
 *
 * One who waits is a lease to be. A queue may have a thousand, who mostly want the same; so it
 * may say only who it is, and refer to another for what it wants.
 *
 * Pure: no clock, no store. All that is known of time comes as evidence. */
#ifndef LEASE_LEASE_H
#define LEASE_LEASE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/evidence.h"
#include "base/moment.h"
#include "base/stamp.h"
#include "lease/scope.h"

/* ---- Settings ------------------------------------------------------------------------ */

/* How careful to be. Kept in each document; whoever judges takes the more careful of the
 * document's and its own. */
struct lease_settings {
    uint32_t drift_ppm;         /* boot-time clocks of two machines differ by no more */
    struct span margin;         /* on top, against what nobody thought of */
    struct span skew_tolerance; /* the store's front ends agree within half of this */
    struct span ttl_max;        /* no lease is longer */
    struct span late_bound;     /* D: a request given up on lands no later than this */
    bool watch_only;            /* takeover=observed: store time proves nothing */
};

#define LEASE_TTL_MS_MIN HF_TTL_MS_MIN

/* No ttl is longer, whatever a table or a client allows. */
#define LEASE_TTL_MAX SPAN_MS(HF_TTL_MS_MAX)

/* Whether milliseconds of a caller are within what is possible at all: OK, or INVALID. */
enum hf_status ttl_ms_check(int64_t ttl_ms, struct hf_error *error);

/* The defaults, for stores on the network. */
struct lease_settings lease_settings_default(void);

/* The more careful of each. */
struct lease_settings lease_settings_stricter(const struct lease_settings *a,
                                              const struct lease_settings *b);

/* ---- A lease ------------------------------------------------------------------------- */

enum lease_mode { LEASE_EXCLUSIVE, LEASE_SHARED, LEASE_SLOTS };

/* The legal moves: active to any other; no other ever moves. */
enum lease_status {
    LEASE_ACTIVE,
    LEASE_COMPLETED,
    LEASE_FAILED,
    LEASE_RELEASED,
    LEASE_EXPIRED,
    LEASE_BROKEN,
};

const char *lease_status_name(enum lease_status status);
const char *lease_mode_name(enum lease_mode mode);

#define HOLDER_BYTES_MAX 256
#define OUTPUT_BYTES_MAX 1024
#define NOTE_BYTES_MAX   1024

/* What a lease says. Views point into `bytes` or `unescaped`, or those of `like`; or, before
 * lease_new, wherever the caller has them. */
struct lease {
    struct view id;
    struct view holder;  /* a label for people */
    struct view session; /* of the handle that holds it */
    struct view nonce;   /* of the attempt that last granted or renewed it */
    struct view clock;   /* on which `expires` is; empty in files of other programs */
    struct view output;  /* the object that the holder is going to write */
    struct view note;    /* JSON, or empty */
    struct scope *scopes;
    size_t scope_count; /* none: covers everything in its table (a barrier) */
    enum lease_mode mode;
    uint64_t slots; /* with LEASE_SLOTS: how many may hold at once */
    uint64_t token;
    uint64_t level;
    enum lease_status status;
    struct span ttl; /* zero in files of other programs */
    uint64_t renewals;
    struct span poll; /* of one who waits: it looks this often; zero in a lease */
    struct wall_time acquired_at, expires_at; /* for display */
    struct store_time expires;                /* on `clock` */
    struct store_time ended;                  /* on `clock`, of one that is over */
    struct span
        once_per; /* it was asked for once in this time, and is remembered for so long */
    struct stamp granted; /* when, if that is so; no renewal changes it */
    struct view unknown;  /* members that we do not know, each with a comma before it */

    struct mono_time seen; /* on our boot-time clock: since when it stands there like this */
    struct view bytes;     /* the JSON object, as it stands */
    struct view entry;     /* the same as a table has it: ",\n", its name if any, the bytes */
    struct lease *like;    /* of one who waits and wants what this says; else NULL */
    struct buffer unescaped;
    size_t users;
};

#define LEASE_BYTES_MAX  ((size_t)256 * 1024)
#define LEASE_SCOPES_MAX 1024

/* Reads one lease of a document. `name` is what it is called there, and must be its id. */
enum hf_status lease_decode(struct view name, struct view bytes, struct lease **ret_lease,
                            struct hf_error *error);

/* Reads one who waits. When its bytes do not say for what, it is what `like` says, which may be
 * NULL: then that is a mistake. */
enum hf_status waiter_decode(struct view bytes, struct lease *like, struct lease **ret_lease,
                             struct hf_error *error);

/* Reads what those want in common who do not say. It is no lease: it has no id. */
enum hf_status wanted_decode(struct view bytes, struct lease **ret_wanted,
                             struct hf_error *error);

/* A lease of these fields, or with `poll` one who waits for it; with `like`, one who wants just
 * what that says. */
enum hf_status lease_new(const struct lease *fields, struct lease **ret_lease,
                         struct hf_error *error);

/* What others may be `like` who want the same as this one. */
enum hf_status wanted_new(const struct lease *fields, struct lease **ret_wanted,
                          struct hf_error *error);

/* One user more; each calls lease_free. */
struct lease *lease_share(struct lease *lease);
void lease_free(struct lease *lease);

/* True when its holder has not touched it between the two: same grant, same renewals. Its
 * status says nothing of that: a body that was changed and not written may have it over. */
bool lease_unchanged(const struct lease *a, const struct lease *b);

/* Whether two of these could not be held at once, slots left aside. */
bool leases_conflict(const struct lease *a, const struct lease *b);

/* Whether they are about the same: equal scopes, in whatever order. */
bool leases_same_scopes(const struct lease *a, const struct lease *b);

/* How long ago a completed one counts from, at least, for who asks once a period. */
struct span once_per_age(const struct lease *lease, const struct evidence *evidence);

/* Whether whoever gets in the way of one gets in the way of the other. */
bool leases_same_wish(const struct lease *a, const struct lease *b);

/* ---- Is it over? --------------------------------------------------------------------- */

enum lease_proof {
    PROOF_NONE,       /* it may still be held */
    PROOF_STORE_TIME, /* the store's clock is past its end, however wrong we take it to be */
    PROOF_WATCHED,    /* it stood there unchanged for longer than its holder could use it */
};

const char *lease_proof_name(enum lease_proof proof);

/* The only way to find that an active lease is over. */
enum lease_proof lease_judge(const struct lease_settings *settings, const struct lease *lease,
                             const struct evidence *evidence);

/* For how long it must be seen unchanged: longer than its holder could use it. */
struct span lease_watch_span(const struct lease_settings *settings, const struct lease *lease);

/* When, on our boot-time clock, a proof will be there if nothing changes, and which. */
struct mono_time lease_provable_at(const struct lease_settings *settings,
                                   const struct lease *lease, const struct evidence *evidence,
                                   enum lease_proof *ret_proof);

/* Leases up to this ttl may be granted and renewed until then, on the store's clock (clock 0: for
 * ever). It is recorded where whoever replaces a damaged table finds it (src/lock/limits.h), so
 * that it knows how long the leases are that nobody can read any more. A ttl of 0: none is known.
 * */
struct ttl_limit {
    struct span ttl;
    struct stamp until;
};

/* Whether a lease of this ttl may be granted by an attempt with this evidence. */
bool ttl_limit_allows(const struct ttl_limit *limit, const struct lease_settings *settings,
                      struct span ttl, const struct evidence *evidence);

/* Until when its holder may use it, on the holder's boot-time clock, if it was granted or
 * renewed by an attempt that began at t0 with this evidence. */
struct mono_time lease_valid_until(const struct lease_settings *settings, struct span ttl,
                                   const struct evidence *evidence);

/* ---- For people ---------------------------------------------------------------------- */

/* How long an active lease has still to go, as far as can be told; negative: it is past that. */
struct span lease_left(const struct lease *lease, const struct evidence *evidence);

/* OVER: provably, so anybody may take it over; OVERDUE: its time is past, and nothing proves it
 * yet; else what it says itself. */
enum hf_lease_state lease_shown_state(const struct lease_settings *settings,
                                      const struct lease *lease,
                                      const struct evidence *evidence);

/* How long it has been held, or was, by the calendar; not below zero. */
struct span lease_held(const struct lease *lease, const struct evidence *evidence);

/* Whether it is a barrier: nobody holds it, and nothing is granted until it is over. */
bool lease_is_barrier(const struct lease *lease);

#endif
