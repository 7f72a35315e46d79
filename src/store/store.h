/* store.h: objects with ETags, and writes that happen only if the object is still the one
 * that was read. Everything above this header is built on that one promise.
 *
 * A call is a struct: the caller fills in what is asked, the store fills in what came of it,
 * and the reason for a failure travels with it. So one call and many calls look alike:
 *
 *     struct put_call put = { .key = VIEW("a"), .body = VIEW("1"), .condition = if_absent() };
 *     if (store_put(store, &put) == HF_OK)
 *         use(put.etag);
 *
 * What the statuses promise, on every back end:
 *
 *   OK            done, and durable as far as the store can say so
 *   NOT_FOUND     get: no such object. put or delete if-match: the object is gone (where the
 *                 store can tell; others say CONFLICT)
 *   NOT_MODIFIED  get with none_match: the object still has that ETag
 *   CONFLICT      the condition did not hold; this call changed nothing
 *   UNSURE        a write without an answer: it may have happened, or may still happen later
 *   UNAVAILABLE   certainly not done (full disk, unreachable, throttled, out of memory)
 *   DENIED, INVALID, UNSUPPORTED, CORRUPT   as in holdfast.h; nothing was changed
 *
 * A delete without a condition of an object that is not there is OK: stores on the network
 * cannot tell. An ETag names one version of one key; never parse it. Whether writing equal
 * bytes again gives a new ETag depends on the store (traits.etag_fresh).
 *
 * Keys are 1 to KEY_BYTES_MAX bytes. Every function may be called from any task of the env
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

#include <stdint.h>

/* ---- What calls are made of ---------------------------------------------------------- */

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

/* False, and unchanged, when the text is empty or too long for an ETag. */
bool etag_set(struct etag *etag, struct view text);

enum condition_kind { CONDITION_ALWAYS, CONDITION_ABSENT, CONDITION_MATCH };

/* When a write may happen. Zero-initialised it means always. */
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

struct object_info {
    struct etag etag;
    uint64_t size;
    struct wall_time modified; /* by the store's clock; for display */
};

/* What a reply says about the store's clock: its Date, and when on our boot-time clock the
 * request left and the reply came. Unknown where the store tells no time; out of a cache (Age) it
 * is a date of some time ago. */
struct store_stamp {
    bool known;
    bool cached;
    struct wall_time date;
    struct mono_time sent;
    struct mono_time received;
};

/* Called now and then while a stream moves; returning false stops it (CANCELLED). */
struct progress {
    bool (*step)(void *argument, uint64_t done, uint64_t total);
    void *argument;
};

/* ---- The calls ----------------------------------------------------------------------- */

/* A deadline of zero means: the store's own time-out. */

struct get_call {
    /* asked */
    struct view key;
    struct etag none_match; /* set: answer NOT_MODIFIED if the object still has this ETag */
    struct etag match;      /* set: answer CONFLICT unless the object has this ETag */
    uint64_t offset;        /* read from here ... */
    uint64_t length;        /* ... this many bytes; 0: to the end */
    struct mono_time deadline;
    struct buffer *body; /* the bytes are appended; its bound is the most that is read */
    /* answered */
    struct object_info info; /* of the whole object, whatever range was asked */
    struct store_stamp stamp;
    struct hf_error error;
};

struct put_call {
    /* asked */
    struct view key;
    struct view body;
    struct condition condition;
    bool quiet; /* nobody waits for this one: who listens need not wake */
    bool
        give; /* put_file: nobody writes to the file again, so it may become the object itself */
    struct mono_time deadline;
    /* answered */
    struct etag etag;
    struct store_stamp stamp;
    struct hf_error error;
};

struct delete_call {
    /* asked */
    struct view key;
    struct condition condition; /* ALWAYS, or MATCH where traits.delete_conditional */
    struct mono_time deadline;
    /* answered */
    struct store_stamp stamp;
    struct hf_error error;
};

/* One object read and written as one step, by a store that has a lock of its own: nobody writes
 * in between, so there is no conflict. */
struct change_call {
    /* asked */
    struct view key;
    struct etag known; /* the version whose bytes the caller has; empty: none */
    /* Called with the store's lock held, perhaps by another task, so it must be quick, and call
     * no store. `now` is the ETag of the object, empty when there is none; `body` its bytes, with
     * data NULL when `now` is `known`; they die with the call. It sees only what is committed.
     * Returns what to write, which lives until store_change returns; data NULL: leave it as it
     * is. May be called again when the step failed and is tried once more. */
    struct view (*decide)(void *argument, const struct etag *now, struct view body);
    void *argument;
    bool quiet; /* as in put_call; decide may set it */
    struct mono_time deadline;
    /* answered; OK also when nothing was written, UNSUPPORTED when it takes a get and a put */
    bool wrote;
    struct etag etag; /* of the object now */
    struct store_stamp stamp;
    struct hf_error error;
};

/* One object, or, when `is_prefix`, all keys that start with `key` up to and including the
 * delimiter; then only `key` is set. */
struct list_entry {
    struct view key;
    bool is_prefix;
    struct object_info info;
};

struct list_call {
    /* asked */
    struct view prefix;
    struct view after;     /* only names greater than this; empty: from the start */
    size_t max;            /* 1 to LIST_PAGE_MAX; 0: LIST_PAGE_MAX */
    struct view delimiter; /* empty, or one byte: roll up what stands behind it */
    struct mono_time deadline;
    /* answered; to be given back by list_release */
    struct arena arena;
    struct list_entry *entries; /* in byte order of key */
    size_t count;
    bool more; /* there is more behind the last entry: ask again with its key as `after` */
    struct store_stamp stamp;
    struct hf_error error;
};

void list_release(struct list_call *call);

/* ---- The store ----------------------------------------------------------------------- */

enum store_clock {
    STORE_CLOCK_NONE, /* tells no time */
    STORE_CLOCK_BOOT, /* the boot-time clock of the machine, under env_boot_id */
    STORE_CLOCK_DATE, /* stamps with the date of the store */
};

/* What this store can do. Back ends of ours know; for stores on the network the probe finds
 * out, and until it has, the careful value stands. */
struct store_traits {
    bool delete_conditional;   /* delete obeys CONDITION_MATCH */
    bool put_file_conditional; /* put_file obeys conditions at any size */
    bool etag_fresh;           /* writing equal bytes again gives a new ETag */
    bool list_ordered;         /* listings come in byte order */
    bool etag_bare;            /* on the wire If-Match wants the ETag without its quotes */
    enum store_clock clock;
    uint32_t clock_skew_ms; /* the clocks of its front ends agree within half of this */
};

struct store;
struct probe_report; /* store/probe.h */

/* A back end. `get`, `put` and `remove` take many calls at once, each conditional and answered
 * by itself; which of them succeed does not depend on the others. */
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
    /* May be NULL: as store_lend_file. */
    void (*lend_file)(struct store *store, struct get_call *call, int *ret_fd);
    /* May be NULL: notes what only the back end itself can see of its surroundings. */
    void (*inspect)(struct store *store, struct probe_report *report);
    /* NULL in stores of our own code: as store_identify. */
    bool (*identify)(struct store *store, struct buffer *text);
    /* May be NULL: takes what an earlier probe found, so as not to find it out again. */
    void (*learn)(struct store *store, const struct store_traits *traits);
    /* May be NULL: changes one object in one step. */
    void (*change)(struct store *store, struct change_call *call);
    /* All or none: as store_listens, store_listen and store_ring. */
    bool (*listens)(const struct store *store);
    bool (*listen)(struct store *store, uint64_t *ticket, struct mono_time until);
    void (*ring)(struct store *store);
    /* May be NULL: as store_peer_changes. */
    bool (*peer_changes)(struct store *store, uint64_t *ret_mark);
    void (*close)(struct store *store);
};

struct store {
    const struct store_ops *ops;
    struct env *env;
    struct store_traits traits;
    struct hf_error barred; /* not OK: every write ends with this, and nothing is sent */
};

/* Opens by URL: mem:  dir:PATH  sqlite:FILE  s3://BUCKET/PREFIX. Options follow as
 * ?name=value&name=value; an unknown one is refused. */
enum hf_status store_open(struct env *env, struct view url, struct store **ret_store,
                          struct hf_error *error);

/* Whether a text begins as the URL of a store does: with a kind that there is, and ':'. */
bool store_is_url(struct view text);

/* Appends the same URL with the path of a local store made absolute ("~/" is the home folder), so
 * that it means the same store to a process in another folder. Its options stay as they are. */
enum hf_status store_url_absolute(struct view url, struct buffer *to, struct hf_error *error);

/* NOT_FOUND, with its path: nobody has made the local store of this URL yet. Makes nothing, and
 * says nothing of stores on the network. */
enum hf_status store_check_present(struct view url, struct hf_error *error);

/* Waits for nothing and writes nothing; no call may be under way. NULL is fine. */
void store_close(struct store *store);

/* Appends what tells this store from every other, as far as is known by now: its kind, then, behind
 * a blank, where it is. True: other people's code keeps it, so that its promises must be tried
 * (bucket.h). */
bool store_identify(struct store *store, struct buffer *text);

/* Each returns the status that is also in call->error. */
enum hf_status store_get(struct store *store, struct get_call *call);
enum hf_status store_put(struct store *store, struct put_call *call);
enum hf_status store_delete(struct store *store, struct delete_call *call);
enum hf_status store_list(struct store *store, struct list_call *call);

/* UNSUPPORTED where the store cannot, or not this object: then get and put. */
enum hf_status store_change(struct store *store, struct change_call *call);

/* Many calls, at most BATCH_MAX: the back end does them together as well as it can. OK when all
 * are; else the first status that is not. A call that is INVALID or UNSUPPORTED as it stands
 * fails the whole batch: nothing of it is done, and every call has that error. */
enum hf_status store_get_many(struct store *store, struct get_call *calls, size_t count);
enum hf_status store_put_many(struct store *store, struct put_call *calls, size_t count);
enum hf_status store_delete_many(struct store *store, struct delete_call *calls, size_t count);

/* Streams an object to or from a file, never whole in memory. get_file writes at the file's
 * offset 0 and on, put_file reads from offset 0 to the file's end; `fd` stays the caller's, and
 * after a failed get_file its contents are undefined. call->body is not used. `progress` may be
 * NULL. */
enum hf_status store_get_file(struct store *store, struct get_call *call, int fd,
                              const struct progress *progress);
enum hf_status store_put_file(struct store *store, struct put_call *call, int fd,
                              const struct progress *progress);

/* Opens the whole object itself to read from, where it is a file of this machine: no byte is
 * copied. The file stays what it is while it is open, unless somebody changes it by hand; the
 * caller closes it. UNSUPPORTED where the object is no file: then get_file. */
enum hf_status store_lend_file(struct store *store, struct get_call *call, int *ret_fd);

/* ---- Waiting for others to write ----------------------------------------------------- */

/* Who waits for an object to change looks, listens, looks again:
 *
 *     uint64_t ticket = 0;
 *     while (store_listen(store, &ticket, until))
 *         if (look(store))
 *             return true;
 *
 * Local stores hear of each put and delete that changed something, by any process of this
 * machine, this one too. Not of a writer that was killed just after its commit, nor of files
 * that are changed by hand: so let `until` be near enough to look now and then all the same.
 *
 * store_listens: whether it hears anything at present. Where it does not, `until` is the next
 * time to poll. A store that hears may become deaf (the user's inotify instances are used up)
 * and hear again later; ask before each wait. */
bool store_listens(const struct store *store);

/* Waits until somebody may have written since the call that set *ticket, or until the moment.
 * True: something may have changed, and *ticket is new. False: the moment has come. A ticket of
 * 0 means never listened: true, at once. No write is missed between two calls: one that is
 * committed after a call has returned makes the next one with its ticket return true at once.
 *
 * It wakes for a write of any key unless that was quiet, and may for none. Also true, at once,
 * when the store has become deaf, or hears again. Many tasks may listen, each with a ticket of
 * its own. */
bool store_listen(struct store *store, uint64_t *ticket, struct mono_time until);

/* Wakes all who listen, as a write would. */
void store_ring(struct store *store);

/* A number that differs from that of an earlier call if anybody but this open store has put or
 * deleted something in between, quietly or not; it may differ for less. Cheap. False: the store
 * cannot tell, as those on the network, or not at this moment. */
bool store_peer_changes(struct store *store, uint64_t *ret_mark);

#endif
