/* SPDX-License-Identifier: Apache-2.0 */
/* store.h: objects with ETags, and writes that happen only if the object is still the version
 * that was read. Everything above this header is built on that one promise.
 *
 * A call is a struct. The caller fills in the request, the store fills in the result, and the
 * reason for a failure is part of the result. So single calls and batches look alike:
 *
 *     struct put_call put = { .key = VIEW("a"), .body = VIEW("1"), .condition = if_absent() };
 *     if (store_put(store, &put) == HF_OK)
 *         use(put.etag);
 *
 * The statuses mean the same on every back end:
 *
 *   OK            done, and durable as far as the store can guarantee it
 *   NOT_FOUND     get: the object does not exist. put or delete if-match: the object is gone
 *                 (some stores report CONFLICT instead)
 *   NOT_MODIFIED  get with none_match: the object still has that ETag
 *   CONFLICT      the condition did not hold; this call changed nothing
 *   UNSURE        a write got no answer: it may have happened, or may still happen later
 *   UNAVAILABLE   definitely not done (full disk, unreachable, throttled, out of memory)
 *   DENIED, INVALID, UNSUPPORTED, CORRUPT   as in holdfast.h; nothing was changed
 *
 * An unconditional delete of an object that does not exist is OK, because stores on the network do
 * not report whether it existed. An ETag names one version of one key; never parse it. Whether a
 * repeated write of equal bytes gives a new ETag depends on the store (traits.etag_fresh).
 *
 * Keys are 1 to KEY_BYTES_MAX bytes long. Every function may be called from any task of the env
 * that the store was opened with. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/moment.h"
#include "base/view.h"
#include "env/env.h"
#include "store/budget.h"

#include <stdint.h>

/* ---- Parts of a call ------------------------------------------------------------------- */

struct etag {
    uint8_t size;
    char data[ETAG_BYTES_MAX];
};

static inline struct view etag_view(const struct etag *etag)
{
    return (struct view){ etag->data, etag->size };
}

static inline bool etag_equal(const struct etag *a, const struct etag *b)
{
    return view_equal(etag_view(a), etag_view(b));
}

/* False if the text is empty or too long for an ETag; *etag is then unchanged. */
bool etag_set(struct etag *etag, struct view text);

enum condition_kind { CONDITION_ALWAYS, CONDITION_ABSENT, CONDITION_MATCH };

/* The condition under which a write happens. Zero-initialised: always. */
struct condition {
    enum condition_kind kind;
    struct etag etag;
};

static inline struct condition if_absent(void)
{
    return (struct condition){ .kind = CONDITION_ABSENT };
}

static inline struct condition if_match(const struct etag *etag)
{
    return (struct condition){ .kind = CONDITION_MATCH, .etag = *etag };
}

static inline bool condition_equal(const struct condition *a, const struct condition *b)
{
    return a->kind == b->kind && (a->kind != CONDITION_MATCH || etag_equal(&a->etag, &b->etag));
}

struct object_info {
    struct etag etag;
    uint64_t size;
    struct wall_time modified; /* by the store's clock; for display */
};

/* The store's clock according to one reply: its Date, and the times on our boot-time clock at which
 * the request was sent and the reply arrived. `known` is false if the reply carries no date. A
 * reply from a cache (`cached`) carries an old date. */
struct store_stamp {
    bool known;
    bool cached;
    struct wall_time date;
    struct mono_time sent;
    struct mono_time received;
};

/* Called from time to time while a stream is copied. If it returns false, the stream stops
 * (CANCELLED). */
struct progress {
    bool (*step)(void *argument, uint64_t done, uint64_t total);
    void *argument;
};

/* ---- The calls ----------------------------------------------------------------------- */

/* In each call, a deadline of zero means the store's own timeout. */

struct get_call {
    /* request */
    struct view key;
    struct etag none_match; /* if set: NOT_MODIFIED if the object still has this ETag */
    struct etag match;      /* if set: CONFLICT unless the object has this ETag */
    uint64_t offset;        /* read from here ... */
    uint64_t length;        /* ... this many bytes; 0: to the end */
    struct mono_time deadline;
    struct buffer *body; /* bytes are appended; at most up to its bound */
    /* The caller acts on the answer only after a later call has succeeded. So the answer itself
     * need not be durable yet. */
    bool provisional;
    /* result */
    struct object_info info; /* of the whole object, regardless of the range */
    struct store_stamp stamp;
    struct hf_error error;
};

struct put_call {
    /* request */
    struct view key;
    struct view body;
    struct condition condition;
    bool quiet; /* this write need not wake listeners */
    /* put_file: nobody writes to the file again, so the file itself may become the object */
    bool give;
    struct mono_time deadline;
    /* result */
    struct etag etag;
    struct store_stamp stamp;
    struct hf_error error;
};

struct delete_call {
    /* request */
    struct view key;
    struct condition condition; /* ALWAYS, or MATCH if traits.delete_conditional */
    struct mono_time deadline;
    /* result */
    struct store_stamp stamp;
    struct hf_error error;
};

/* Reads and writes one object in one step, on a store that has its own lock: nobody writes in
 * between, so there is no conflict. */
struct change_call {
    /* request */
    struct view key;
    struct etag known; /* the version whose bytes the caller has, or empty */
    bool creates; /* the caller expects that there is no object; only for those who count */
    /* May be set: what `decide` returns if `now` equals `known`. A store may then write it without
     * calling `decide`, so that its lock is held for less time. Must stay valid like a result of
     * `decide`, and no longer than until `decide` is called with another version. */
    struct view ready;
    /* Called with the store's lock held, possibly in another task. It must be quick, and must not
     * call a store. `now` is the ETag of the object, or empty if there is no object. `body`
     * contains the bytes of the object; body.data is NULL if `now` equals `known`. Both are valid
     * only during the call, and show only committed state. Returns the bytes to write, which must
     * stay valid until store_change returns; data NULL leaves the object unchanged. May be called
     * again if the step failed and is retried. */
    struct view (*decide)(void *argument, const struct etag *now, struct view body);
    void *argument;
    bool quiet; /* as in put_call; decide may set it */
    /* Set by decide, for changes together: nothing is written, neither here nor by the others. */
    bool refused;
    struct mono_time deadline;
    /* result; OK even if nothing was written; UNSUPPORTED: use a get and a put instead */
    bool wrote;
    struct etag etag; /* of the object after the call */
    struct store_stamp stamp;
    struct hf_error error;
};

/* One object or, with `is_prefix`, a group: all keys that start with `key`, which ends with the
 * delimiter. In a group only `key` is set. */
struct list_entry {
    struct view key;
    bool is_prefix;
    struct object_info info;
};

struct list_call {
    /* request */
    struct view prefix;
    struct view after;     /* only names greater than this; empty: all */
    size_t max;            /* 1 to LIST_PAGE_MAX; 0: LIST_PAGE_MAX */
    struct view delimiter; /* empty, or the byte up to which names are grouped */
    /* 0, or what the page before this one has returned. It may show fewer of the writes since the
     * first page. */
    uint64_t continuation;
    struct mono_time deadline;
    /* result; free it with list_release */
    struct arena arena;
    struct list_entry *entries; /* in byte order of key */
    size_t count;
    bool more; /* more entries follow: list again with the last key as `after` */
    struct store_stamp stamp;
    struct hf_error error;
};

void list_release(struct list_call *call);

/* ---- The store ----------------------------------------------------------------------- */

enum store_clock {
    STORE_CLOCK_NONE, /* replies carry no time */
    STORE_CLOCK_BOOT, /* the boot-time clock of the machine, under env_boot_id */
    STORE_CLOCK_DATE, /* replies carry the store's date */
};

/* The abilities of a store. Our own back ends set them. For stores on the network the probe
 * determines them, and the safe values are used until then. */
struct store_traits {
    bool delete_conditional;   /* delete obeys CONDITION_MATCH */
    bool put_file_conditional; /* put_file obeys conditions at any size */
    bool etag_fresh;           /* a repeated write of equal bytes gives a new ETag */
    bool list_ordered;         /* listings are in byte order */
    bool etag_bare;            /* If-Match must carry the ETag without its quotes */
    /* A put that conflicts was not made. False if a proxy may send a put twice: then the second one
     * conflicts with the first. */
    bool conflict_final;
    enum store_clock clock;
    uint32_t clock_skew_ms; /* the clocks of its front ends agree to within half of this */
};

struct store;
struct write_notify;
struct probe_report; /* store/probe.h */

/* A back end. `get`, `put` and `remove` each take an array of calls. Each call has its own
 * condition and its own result, and none depends on the others. */
struct store_ops {
    const char *name;
    void (*get)(struct store *store, struct get_call *calls, size_t count);
    void (*put)(struct store *store, struct put_call *calls, size_t count);
    void (*remove)(struct store *store, struct delete_call *calls, size_t count);
    void (*list)(struct store *store, struct list_call *call);
    void (*get_file)(struct store *store, struct get_call *call, int fd,
                     const struct progress *progress);
    void (*put_file)(struct store *store, struct put_call *call, int fd,
                     const struct progress *progress);
    /* Like store_lend_file. May be NULL. */
    void (*lend_file)(struct store *store, struct get_call *call, int *ret_fd);
    /* May be NULL: changes these objects, together in one step or, as store_change_each, each by
     * itself. */
    void (*change)(struct store *store, struct change_call *calls, size_t count, bool together);
    /* The following may also be NULL; a wrapper then passes the call on to its inner store.
     * `inspect` records facts about the store's settings and environment that only the back end can
     * see. */
    void (*inspect)(struct store *store, struct mono_time deadline,
                    struct probe_report *report);
    /* Like store_identify. NULL in our own stores. */
    bool (*identify)(struct store *store, struct buffer *text);
    /* Adopts the traits that an earlier probe found, to avoid probing again. */
    void (*learn)(struct store *store, const struct store_traits *traits);
    /* The caller is going to rely on a verdict on the store with this identity. False: the store
     * now has another one. If replies show that later, every call fails with UNSUPPORTED. */
    bool (*rely)(struct store *store, struct view identity);
    /* Like store_doubt. */
    void (*doubt)(struct store *store, struct mono_time deadline);
    /* Like store_listens, store_listen, store_ring, for a store without a notify file. Set all
     * three or none. */
    bool (*listens)(const struct store *store);
    bool (*listen)(struct store *store, uint64_t *ticket, struct mono_time until);
    void (*ring)(struct store *store);
    /* Like store_peer_changes. */
    bool (*peer_changes)(struct store *store, uint64_t *ret_mark);
    /* For a store without a notify file that can tell which sessions are alive (session.h): looks
     * up the place, and with an id joins there; and whether a session that has joined is gone. Set
     * both or none. */
    bool (*session_enter)(struct store *store, const char *id, char *ret_place);
    bool (*session_gone)(struct store *store, const char *place, struct view id);
    void (*close)(struct store *store);
};

struct store {
    const struct store_ops *ops;
    struct env *env;
    struct store *inner;         /* the store that this one wraps, or NULL */
    struct write_notify *notify; /* reports writes by others (write_notify.h), or NULL */
    struct store_traits traits;
    struct hf_error barred; /* not OK: every write fails with this error, and nothing is sent */
    struct retry_budget budget; /* of the innermost store: use store_budget */
};

/* The budget for retries, which a store shares with its wrappers. */
struct retry_budget *store_budget(struct store *store);

/* Opens a store by URL: mem:  dir:PATH  sqlite:FILE  s3://BUCKET/PREFIX  gs://BUCKET/PREFIX
 * azure://ACCOUNT/CONTAINER/PREFIX. Options follow as ?name=value&name=value. An unknown option is
 * INVALID. */
enum hf_status store_open(struct env *env, struct view url, struct store **ret_store,
                          struct hf_error *error);

/* Whether a string starts like the URL of a store with objects: with a known scheme and ':'. A
 * server has none. */
bool store_is_url(struct view text);

/* Appends the URL, with the path of a local store made absolute ("~/" is the home directory). In a
 * process with another working directory, the result still refers to the same store. The options
 * are unchanged. */
enum hf_status store_url_absolute(struct view url, struct buffer *to, struct hf_error *error);

/* NOT_FOUND, with the path in the error, if the local store with this URL does not exist yet.
 * Creates nothing, and is always OK for stores on the network. */
enum hf_status store_check_present(struct view url, struct hf_error *error);

/* Whether two objects of such stores that both have this ETag, and the same size, have the same
 * bytes: on S3, the ETag of an object that was not uploaded in parts is the MD5 sum of its bytes.
 * False if it is not known. */
bool store_etag_is_md5(struct store *store, const struct etag *etag);

/* Changes no object. No call may be in progress. NULL is allowed. */
void store_close(struct store *store);

/* Appends a string that distinguishes this store from every other, as far as is known at this
 * point: its kind, a space, and its location. Returns true if the store is not our own code, so
 * that its promises must be probed (bucket.h). */
bool store_identify(struct store *store, struct buffer *text);

/* The store refuses writes although their conditions hold. It looks whether a verdict on which the
 * caller relies still counts; if not, every later call fails with UNSUPPORTED, and nothing is sent.
 * Does nothing on stores for which this cannot be the reason. */
void store_doubt(struct store *store, struct mono_time deadline);

/* Each returns the status that is also in call->error. */
enum hf_status store_get(struct store *store, struct get_call *call);
enum hf_status store_put(struct store *store, struct put_call *call);
enum hf_status store_delete(struct store *store, struct delete_call *call);
enum hf_status store_list(struct store *store, struct list_call *call);

/* UNSUPPORTED if the store cannot do this at all, or cannot do it for this object: use a get and a
 * put instead. */
enum hf_status store_change(struct store *store, struct change_call *call);

/* Changes 1 to TOGETHER_MAX different objects in one step. All are written, or none: if a call's
 * decide sets `refused`, nothing is written and every call is OK with `wrote` false, and decide may
 * not have been called for the others. All calls have the same status. The first call's deadline
 * applies. */
enum hf_status store_change_together(struct store *store, struct change_call *calls,
                                     size_t count);

/* Changes 1 to EACH_MAX different objects, each by itself and with its own status, in as few steps
 * as the back end can: on sqlite, all of them with one sync of the disk. CONFLICT: nothing was
 * changed, because a change of the same object by another call is not on disk yet. The first call's
 * deadline applies. Returns the first status that is not OK. */
enum hf_status store_change_each(struct store *store, struct change_call *calls, size_t count);

/* Many calls, at most BATCH_MAX, which the back end combines as well as it can. Returns OK if all
 * calls are OK; otherwise the first status that is not OK. If one call is INVALID or UNSUPPORTED
 * before anything is sent, the whole batch fails: nothing is done, and every call has that
 * error. */
enum hf_status store_get_many(struct store *store, struct get_call *calls, size_t count);
enum hf_status store_put_many(struct store *store, struct put_call *calls, size_t count);
enum hf_status store_delete_many(struct store *store, struct delete_call *calls, size_t count);

/* Streams an object to or from a file without holding it in memory. get_file writes from offset 0
 * of the file; put_file reads from offset 0 to the end of the file. The caller still owns `fd`.
 * After a failed get_file the contents of the file are undefined. call->body is not used.
 * `progress` may be NULL. */
enum hf_status store_get_file(struct store *store, struct get_call *call, int fd,
                              const struct progress *progress);
enum hf_status store_put_file(struct store *store, struct put_call *call, int fd,
                              const struct progress *progress);

/* If the object is a file on this machine, opens that file for reading, so that no byte is copied.
 * The file does not change while it is open, unless somebody edits it by hand. The caller closes
 * it. UNSUPPORTED if the object is not a file: use get_file. */
enum hf_status store_lend_file(struct store *store, struct get_call *call, int *ret_fd);

/* ---- Waiting for others to write ----------------------------------------------------- */

/* A task that waits for an object to change reads it, listens, and reads it again:
 *
 *     uint64_t ticket = 0;
 *     while (store_listen(store, &ticket, until))
 *         if (look(store))
 *             return true;
 *
 * Local stores are notified of every put and delete that changed something, by any process on this
 * machine including this one. They miss a writer that was killed just after its commit, and files
 * that are changed by hand. So choose an `until` that makes the task read from time to time anyway.
 *
 * store_listens: whether the store is currently notified of writes. If it is not, `until` is the
 * next time to poll. Notification may stop working (when the user's inotify instances are
 * exhausted) and resume later, so call this before each wait. */
bool store_listens(const struct store *store);

/* Waits until somebody may have written since the call that set *ticket, or until the given time.
 * Returns true if something may have changed; *ticket is then new. Returns false if the time has
 * come. A ticket of 0 means that the task has not listened yet; the call then returns true
 * immediately. No write is missed between two calls: a write that is committed after a call has
 * returned makes the next call with its ticket return true immediately.
 *
 * A write to any key wakes the listener, unless that write was quiet. The call may also return true
 * without a write, and does so immediately when notification stops working or resumes. Many tasks
 * may listen, each with its own ticket. */
bool store_listen(struct store *store, uint64_t *ticket, struct mono_time until);

/* Wakes all listeners, as a write would. */
void store_ring(struct store *store);

/* Sets *ret_mark to a number that changes whenever a client other than this open store has put or
 * deleted something, quietly or not. It may also change without a write. The call is cheap. Returns
 * false if the store cannot know this, either at all (stores on the network) or at present. */
bool store_peer_changes(struct store *store, uint64_t *ret_mark);

#endif
