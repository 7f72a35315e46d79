/* store.h: the objects of a store: read, written, deleted, listed and copied, with conditions; and
 * what a person needs to know of a store: whether it keeps its promises, what time it tells, and
 * what to do after a restore.
 *
 *     struct hf_store *store;
 *     struct hf_store_put_options once = HF_STORE_PUT_OPTIONS;
 *     once.if_absent = true;
 *     if (hf_store_open("sqlite:jobs.db", NULL, &store, &error) == HF_OK &&
 *         hf_store_put(store, "reports/today.csv", "a,b\n", 4, &once, NULL, &error) == HF_OK)
 *         puts("nobody had written it before");
 *     hf_store_close(store);
 *
 * WHAT A STORE PROMISES. A write with a condition happens only if the condition holds at that
 * moment, and of any number of writers with the same condition one wins. A write that is OK is
 * durable as far as the store can say so, and everybody who reads later sees it. The statuses mean
 * the same on every store:
 *
 *     OK            done
 *     NOT_FOUND     there is no such object; of a write with if_match: it is gone
 *     NOT_MODIFIED  of a get with if_none_match: the object still has that ETag
 *     CONFLICT      the condition did not hold; nothing was changed
 *     UNSURE        a write without an answer: it may have happened, or may still happen
 *     UNAVAILABLE   certainly not done (unreachable, throttled, full, out of memory)
 *     CANCELLED     the progress function said stop; of a write: nothing was changed
 *     DENIED, INVALID, UNSUPPORTED, CORRUPT   nothing was changed
 *
 * After UNSURE read the object, and write again with a condition.
 *
 * KEYS have 1 to 1024 bytes. They are texts; a key that holds a NUL byte is passed with its size,
 * in key_size. An ETag names one version of one object: compare it, and never parse it. Whether
 * writing equal bytes again gives a new ETag depends on the store.
 *
 * HOLDFAST'S OWN OBJECTS (lock tables, catalogs, chunks, ...) stand in the same store. Writing one
 * by hand can break locks and lose data, so every call here that writes refuses their keys
 * (INVALID) unless the option `force` is set. Reading them is always fine. */
#ifndef HOLDFAST_STORE_H
#define HOLDFAST_STORE_H

#include "holdfast/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HF_KEY_BYTES_MAX 1024
#define HF_ETAG_MAX      128  /* bytes of an ETag with its NUL */
#define HF_STORE_URL_MAX 2049 /* bytes of a URL with its NUL */

/* ---- URLs ---------------------------------------------------------------------------- */

/* Whether a text begins as the URL of a store does: with a kind that there is, and ':'. */
HF_API bool hf_store_is_url(const char *text);

/* The same URL with the path of a local store made absolute ("~/" is the home folder), so that it
 * means the same store to a process in another folder. Its options stay as they are. INVALID: no
 * store has such a URL, or it is too long. */
HF_API enum hf_status hf_store_url_absolute(const char *url, char ret_url[HF_STORE_URL_MAX],
                                            struct hf_error *error);

/* Whether somebody has made the local store of this URL: NOT_FOUND, with its path, if nobody has.
 * Makes nothing, and says OK of stores on the network without asking them. */
HF_API enum hf_status hf_store_check_present(const char *url, struct hf_error *error);

/* ---- Opening ------------------------------------------------------------------------- */

struct hf_store;

/* The calls of a store, each with its name. */
#define HF_STORE_CALL_TABLE(ROW) \
    ROW(GET, "get")              \
    ROW(PUT, "put")              \
    ROW(DELETE, "delete")        \
    ROW(LIST, "list")            \
    ROW(GET_FILE, "get_file")    \
    ROW(PUT_FILE, "put_file")

#define HF_STORE_CALL_ENUM_(name, text) HF_STORE_CALL_##name,
enum hf_store_call { HF_STORE_CALL_TABLE(HF_STORE_CALL_ENUM_) HF_STORE_CALL_COUNT };
#undef HF_STORE_CALL_ENUM_

/* "get_file"; "unknown" for any other number. */
HF_API const char *hf_store_call_name(enum hf_store_call call);

/* One call of the store after it was answered, those of locks and all else too. */
struct hf_store_request {
    enum hf_store_call call;
    const char *key; /* of a listing: its prefix */
    size_t key_size;
    bool if_absent;
    const char *if_match; /* the ETag; NULL: none */
    enum hf_status status;
    const char *why;  /* empty when it is OK */
    const char *etag; /* that the object has now; NULL: not known */
    uint64_t sent_bytes;
    uint64_t received_bytes;
    int64_t took_us;
    bool first_of_batch; /* several calls may be one request to the store */
};

struct hf_store_options {
    size_t struct_size;
    bool
        coordinates; /* it is opened for clients (hf_client_open_on): learns at once what they must
                         know, as hf_client_open does, and fails as that would */
    bool must_exist; /* NOT_FOUND where nobody has made the local store yet */

    /* Called after each call, from the thread that made it; must not use the store. May be NULL. */
    void (*trace)(void *argument, const struct hf_store_request *request);
    void *trace_argument;

    /* Called while it is opened if requests go to another machine without encryption, with a
     * sentence. May be NULL. */
    void (*warn)(void *argument, const char *sentence);
    void *warn_argument;
};
#define HF_STORE_OPTIONS                                                                   \
    HF_VALUE_(hf_store_options, sizeof(struct hf_store_options), false, false, NULL, NULL, \
              NULL, NULL)

/* Opens by URL, as hf_client_open does, and reads what the bucket says of itself (one get).
 * `options` may be NULL. A local store that is not there is made.
 *   NOT_FOUND    must_exist, and it does not
 *   UNSUPPORTED  the bucket uses a feature that this version does not know; with `coordinates`
 *                also: the store does not keep the promises that locks are built on
 *   INVALID      the URL names no store
 *   UNAVAILABLE, DENIED, CORRUPT  the store could not be asked, or what it said */
HF_API enum hf_status hf_store_open(const char *url, const struct hf_store_options *options,
                                    struct hf_store **ret_store, struct hf_error *error);

/* The store itself goes with its last client that is open on it. NULL is fine. */
HF_API void hf_store_close(struct hf_store *store);

/* A client on a store that is open, which may have several, each with a namespace of its own.
 * `options` may be NULL. A store that was not opened with `coordinates` is asked now (one get, and
 * the probe where it is needed); then no other thread may use it meanwhile. Otherwise as
 * hf_client_open. */
HF_API enum hf_status hf_client_open_on(struct hf_store *store,
                                        const struct hf_client_options *options,
                                        struct hf_client **ret_client, struct hf_error *error);

/* The store of a client, until the client is closed; not to be closed. NULL of NULL. */
HF_API struct hf_store *hf_client_store(struct hf_client *client);

/* ---- Objects ------------------------------------------------------------------------- */

struct hf_object_info {
    size_t struct_size;
    char etag[HF_ETAG_MAX];
    uint64_t size;       /* of the whole object, whatever range was read */
    int64_t modified_ms; /* since 1970, by the store's clock: for people; 0 after a put */
};
#define HF_OBJECT_INFO HF_VALUE_(hf_object_info, sizeof(struct hf_object_info), { 0 }, 0, 0)

/* How far something is. */
struct hf_progress {
    uint64_t done_bytes;
    uint64_t total_bytes; /* 0: not known */
};

/* Called now and then while bytes move. False: stop, which is CANCELLED. */
typedef bool hf_progress_fn(void *argument, const struct hf_progress *progress);

struct hf_store_get_options {
    size_t struct_size;
    size_t key_size;           /* 0: the key ends with its NUL */
    const char *if_match;      /* CONFLICT unless the object has this ETag; NULL: any */
    const char *if_none_match; /* NOT_MODIFIED if the object still has this ETag */
    uint64_t offset;           /* read from here; INVALID behind the end of the object */
    uint64_t length;           /* so many bytes, or what there is; 0: to the end */
    int64_t timeout_ms;        /* 0: the store's own */
    hf_progress_fn *progress;  /* of get_file; may be NULL */
    void *progress_argument;
};
#define HF_STORE_GET_OPTIONS                                                                  \
    HF_VALUE_(hf_store_get_options, sizeof(struct hf_store_get_options), 0, NULL, NULL, 0, 0, \
              0, NULL, NULL)

/* Reads an object, or a range of it, of at most size_max bytes (INVALID if it is larger; at most
 * 256 MiB). The data is given back by hf_free. `options` and `ret_info` may be NULL. */
HF_API enum hf_status hf_store_get(struct hf_store *store, const char *key, size_t size_max,
                                   const struct hf_store_get_options *options, void **ret_data,
                                   size_t *ret_size, struct hf_object_info *ret_info,
                                   struct hf_error *error);

/* Streams it to a file, from the file's offset 0 on. What the file holds after a failure is
 * undefined. A file that was longer than the object keeps its rest. */
HF_API enum hf_status hf_store_get_file(struct hf_store *store, const char *key, int fd,
                                        const struct hf_store_get_options *options,
                                        struct hf_object_info *ret_info,
                                        struct hf_error *error);

struct hf_store_put_options {
    size_t struct_size;
    size_t key_size; /* 0: the key ends with its NUL */
    bool if_absent;  /* CONFLICT if there is such an object */
    const char
        *if_match;      /* CONFLICT unless the object has this ETag, NOT_FOUND if it is gone */
    bool force;         /* one of Holdfast's own objects, too */
    int64_t timeout_ms; /* 0: the store's own */
    hf_progress_fn *progress; /* of put_file; may be NULL */
    void *progress_argument;
};
#define HF_STORE_PUT_OPTIONS                                                             \
    HF_VALUE_(hf_store_put_options, sizeof(struct hf_store_put_options), 0, false, NULL, \
              false, 0, NULL, NULL)

/* Writes an object whole, or not at all. `options` and `ret_info` may be NULL; `data` too, with a
 * size of 0. At most 256 MiB. */
HF_API enum hf_status hf_store_put(struct hf_store *store, const char *key, const void *data,
                                   size_t size, const struct hf_store_put_options *options,
                                   struct hf_object_info *ret_info, struct hf_error *error);

/* The same of a file, from its offset 0 to its end, which must not change meanwhile. */
HF_API enum hf_status hf_store_put_file(struct hf_store *store, const char *key, int fd,
                                        const struct hf_store_put_options *options,
                                        struct hf_object_info *ret_info,
                                        struct hf_error *error);

struct hf_store_delete_options {
    size_t struct_size;
    size_t key_size; /* 0: the key ends with its NUL */
    const char
        *if_match;      /* CONFLICT unless the object has this ETag; UNSUPPORTED where the store
                             has no conditional delete */
    bool force;         /* one of Holdfast's own objects, too */
    int64_t timeout_ms; /* 0: the store's own */
};
#define HF_STORE_DELETE_OPTIONS                                                                \
    HF_VALUE_(hf_store_delete_options, sizeof(struct hf_store_delete_options), 0, NULL, false, \
              0)

/* Deletes an object. One that is not there is OK, since not every store can tell; with if_match it
 * is NOT_FOUND or CONFLICT. `options` may be NULL. */
HF_API enum hf_status hf_store_delete(struct hf_store *store, const char *key,
                                      const struct hf_store_delete_options *options,
                                      struct hf_error *error);

/* What came of one of many; `error` lives for the call. */
typedef bool hf_store_deleted_fn(void *argument, size_t index, const struct hf_error *error);

/* Deletes many, each by itself, in as few requests as the store allows. `sizes` may be NULL: every
 * key ends with its NUL. `each`, which may be NULL, is called once for each key when its request
 * was answered, in their order; false: no further request is made, which is OK. Keys that make no
 * sense, or that it takes `force` to delete, are refused before anything is deleted. Returns OK
 * when all are gone, else the first failure; the others are gone all the same. options->key_size
 * must be 0. */
HF_API enum hf_status hf_store_delete_many(struct hf_store *store, const char *const *keys,
                                           const size_t *sizes, size_t count,
                                           const struct hf_store_delete_options *options,
                                           hf_store_deleted_fn *each, void *argument,
                                           struct hf_error *error);

/* INVALID: no object can have this key, or, unless `force`, it is one of Holdfast's own. What every
 * call that writes checks first. `key_size` as everywhere. Local. */
HF_API enum hf_status hf_store_check_key(const char *key, size_t key_size, bool force,
                                         struct hf_error *error);

/* ---- Listing ------------------------------------------------------------------------- */

/* One object of a listing, or all whose keys start alike up to the delimiter. */
struct hf_store_entry {
    const char *key;
    size_t key_size;
    bool is_prefix; /* then only the key is set, which ends with the delimiter */
    const char *etag;
    uint64_t size;
    int64_t modified_ms;
    bool
        last_of_page; /* the next one takes a request: a moment to flush what was made of these */
};

struct hf_store_list_options {
    size_t struct_size;
    size_t prefix_size; /* 0: the prefix ends with its NUL */
    const char *after;  /* only names behind this one, in byte order; NULL: all */
    size_t after_size;  /* 0: it ends with its NUL */
    char delimiter;     /* roll up what stands behind this byte, after the prefix; 0: nothing */
    uint64_t max;       /* stop after so many; 0: never */
    int64_t timeout_ms; /* of each request; 0: the store's own */
};
#define HF_STORE_LIST_OPTIONS \
    HF_VALUE_(hf_store_list_options, sizeof(struct hf_store_list_options), 0, NULL, 0, 0, 0, 0)

typedef bool hf_store_each_fn(void *argument, const struct hf_store_entry *entry);

/* Calls `each` for every object whose key starts with `prefix` ("": all), in byte order of the
 * keys; false: stop, which is OK. What is written meanwhile is shown or not, and nothing twice.
 * `each` may use the store. After a failure the entries until then were shown. `options` may be
 * NULL. */
HF_API enum hf_status hf_store_list(struct hf_store *store, const char *prefix,
                                    const struct hf_store_list_options *options,
                                    hf_store_each_fn *each, void *argument,
                                    struct hf_error *error);

/* ---- Copying ------------------------------------------------------------------------- */

/* One object after it was copied, or found equal. */
struct hf_store_copied {
    const char *source;
    size_t source_size;
    const char *target;
    size_t target_size;
    uint64_t size;
    uint32_t crc32c; /* of its bytes */
    bool copied;     /* false: it was there already, with equal bytes */
};

struct hf_store_copy_options {
    size_t struct_size;
    size_t source_size; /* 0: it ends with its NUL */
    size_t target_size; /* 0: it ends with its NUL */
    bool if_absent;     /* replace nothing: what is there with other bytes is a CONFLICT */
    bool force;         /* replace Holdfast's own objects, too */
    bool count_first;   /* copy_all: list twice, so that the progress knows the total */
    bool (*each)(void *argument,
                 const struct hf_store_copied *copied); /* false: stop; or NULL */
    void *each_argument;
    hf_progress_fn *progress; /* may be NULL */
    void *progress_argument;
};
#define HF_STORE_COPY_OPTIONS                                                                  \
    HF_VALUE_(hf_store_copy_options, sizeof(struct hf_store_copy_options), 0, 0, false, false, \
              false, NULL, NULL, NULL, NULL)

struct hf_store_copy_report {
    size_t struct_size;
    uint64_t copied; /* objects */
    uint64_t copied_bytes;
    uint64_t equal;    /* were there already, with equal bytes */
    uint64_t vanished; /* from the source, while it was copied */
};
#define HF_STORE_COPY_REPORT \
    HF_VALUE_(hf_store_copy_report, sizeof(struct hf_store_copy_report), 0, 0, 0, 0)

/* Copies an object, within a store or from one to another. It goes through a temporary file, is
 * read back from the target and compared by size and CRC32C with what was read from the source:
 * CORRUPT if they differ. A copy that is there already with equal bytes is left alone. `options`
 * and `ret_report` may be NULL.
 *   NOT_FOUND  there is no such object in `from`
 *   INVALID    `target` is one of Holdfast's own objects, without `force`; or source and target
 *              are the same */
HF_API enum hf_status hf_store_copy(struct hf_store *from, const char *source,
                                    struct hf_store *to, const char *target,
                                    const struct hf_store_copy_options *options,
                                    struct hf_store_copy_report *ret_report,
                                    struct hf_error *error);

/* Copies every object whose key starts with `source`, which `target` takes the place of; both may
 * be "". Holdfast's own objects are copied to where there are none, as a backup is; what the probe
 * found out about the source is not copied. The first failure ends it, naming the key; what was
 * copied until then stays, and a second call goes on. INVALID within one store if `target` starts
 * with `source`: the copies would be copied again. */
HF_API enum hf_status hf_store_copy_all(struct hf_store *from, const char *source,
                                        struct hf_store *to, const char *target,
                                        const struct hf_store_copy_options *options,
                                        struct hf_store_copy_report *ret_report,
                                        struct hf_error *error);

/* ---- The probe ----------------------------------------------------------------------- */

/* What was found out about one promise: name, word, what it means. */
#define HF_FINDING_TABLE(ROW)                                                  \
    ROW(GOOD, "good", "as it should be")                                       \
    ROW(LACKING, "lacking", "not there; Holdfast does without")                \
    ROW(REFUSED, "refused", "needed, and not there: no locks on such a store") \
    ROW(WARNING, "warning", "works, but somebody should know")

#define HF_FINDING_ENUM_(name, word, text) HF_FINDING_##name,
enum hf_finding { HF_FINDING_TABLE(HF_FINDING_ENUM_) HF_FINDING_COUNT };
#undef HF_FINDING_ENUM_

/* "good"; "unknown" for any other number. */
HF_API const char *hf_finding_name(enum hf_finding finding);

struct hf_store_finding {
    const char *what; /* a short name: "put if absent" */
    enum hf_finding finding;
    const char *detail;
};

struct hf_store_probe_options {
    size_t struct_size;
    bool no_save; /* do not keep the findings in the store for others */
    bool (*each)(void *argument, const struct hf_store_finding *finding); /* or NULL */
    void *argument;
};
#define HF_STORE_PROBE_OPTIONS \
    HF_VALUE_(hf_store_probe_options, sizeof(struct hf_store_probe_options), false, NULL, NULL)

struct hf_store_probe_report {
    size_t struct_size;
    bool usable; /* for locks */
    uint32_t findings;
    uint32_t requests; /* that it took */
    bool delete_conditional;
    bool put_file_conditional; /* put_file obeys conditions at any size */
    bool etag_fresh;           /* writing equal bytes again gives a new ETag */
    bool list_ordered;         /* the store itself lists in byte order */
};
#define HF_STORE_PROBE_REPORT                                                                  \
    HF_VALUE_(hf_store_probe_report, sizeof(struct hf_store_probe_report), false, 0, 0, false, \
              false, false, false)

/* Finds out, on scratch objects that it removes, whether a store keeps the promises that locks are
 * built on, and keeps what it found in the store, for 30 days; a refusal for a day. UNSUPPORTED,
 * with a sentence that says what failed: it does not. Another status: it could not be tried, and
 * nothing is kept. `each` and `ret_report` tell what was found so far whatever the status is; both
 * may be left out, and `options` may be NULL. A store on the network is probed by the first client
 * that needs to know, so this is for looking, and to try a store again. */
HF_API enum hf_status hf_store_probe(struct hf_store *store,
                                     const struct hf_store_probe_options *options,
                                     struct hf_store_probe_report *ret_report,
                                     struct hf_error *error);

/* ---- The store's clock --------------------------------------------------------------- */

#define HF_STORE_CLOCK_TABLE(ROW)                                              \
    ROW(NONE, "none", "tells no time: leases are taken over only by watching") \
    ROW(BOOT, "boot", "the boot-time clock of this machine, known exactly")    \
    ROW(DATE, "date", "the store's, as it dates its replies: known within an interval")

#define HF_STORE_CLOCK_ENUM_(name, word, text) HF_STORE_CLOCK_##name,
enum hf_store_clock { HF_STORE_CLOCK_TABLE(HF_STORE_CLOCK_ENUM_) HF_STORE_CLOCK_COUNT };
#undef HF_STORE_CLOCK_ENUM_

/* "date"; "unknown" for any other number. */
HF_API const char *hf_store_clock_name(enum hf_store_clock kind);

#define HF_STORE_CLOCK_ID_MAX  65
#define HF_STORE_CLOCK_SAMPLES 16

/* One reply: how far the store's clock was from the calendar of this machine. */
struct hf_store_clock_sample {
    int64_t age_us;
    int64_t offset_min_us;
    int64_t offset_max_us;
};

struct hf_store_clock_report {
    size_t struct_size;
    enum hf_store_clock kind;
    char id[HF_STORE_CLOCK_ID_MAX]; /* two clocks of one id tell the same time */
    bool known;
    int64_t since_boot_us;
    int64_t
        earliest_us; /* the store's time is between these two; of DATE since 1970, else of the */
    int64_t latest_us;     /* boot; 0 unless it is known */
    int64_t offset_min_us; /* of DATE: the same two, from the calendar of this machine */
    int64_t offset_max_us;
    uint32_t drift_ppm; /* allowed for between samples */
    uint32_t sample_count;
    struct hf_store_clock_sample samples[HF_STORE_CLOCK_SAMPLES]; /* the newest first */
};
#define HF_STORE_CLOCK_REPORT                                              \
    HF_VALUE_(hf_store_clock_report, sizeof(struct hf_store_clock_report), \
              HF_STORE_CLOCK_NONE, { 0 }, false, 0, 0, 0, 0, 0, 0, 0, { { 0, 0, 0 } })

/* What is known of the store's clock, and from what: by three requests of a store on the network.
 * UNSUPPORTED: no reply had a date. */
HF_API enum hf_status hf_store_clock(struct hf_store *store,
                                     struct hf_store_clock_report *ret_report,
                                     struct hf_error *error);

/* ---- After a restore ----------------------------------------------------------------- */

/* A namespace, or one lock table of it. Texts live for the call. */
struct hf_store_restored_info {
    const char *ns;     /* NULL: it is a table */
    uint64_t epoch;     /* of the namespace: the upper half of every token from now on */
    const char *table;  /* its key; NULL: it is a namespace */
    bool damaged;       /* the table could not be read, and is replaced */
    int64_t barrier_ms; /* nothing is granted in the table for so long */
};

struct hf_store_restored_options {
    size_t struct_size;
    bool dry_run; /* change nothing, and tell what would be done */
    const char
        *ns; /* a namespace to treat even if nothing of it is in the backup; NULL: none */
    const char *by; /* who did it: stands as the holder meanwhile; NULL: this call */
    bool (*each)(void *argument, const struct hf_store_restored_info *info); /* or NULL */
    void *argument;
};
#define HF_STORE_RESTORED_OPTIONS                                                         \
    HF_VALUE_(hf_store_restored_options, sizeof(struct hf_store_restored_options), false, \
              NULL, NULL, NULL, NULL)

struct hf_store_restored_report {
    size_t struct_size;
    uint64_t namespaces;
    uint64_t tables;
    int64_t barrier_ms; /* the longest */
};
#define HF_STORE_RESTORED_REPORT \
    HF_VALUE_(hf_store_restored_report, sizeof(struct hf_store_restored_report), 0, 0, 0)

/* To be called on a store that came back from a backup, before work goes on: a backup knows less
 * than had happened. Raises the epoch of every namespace above all tokens that can have been given
 * since, and lets no table grant anything until whoever held a lease has noticed that it is over. A
 * lock whose table is not in the backup is free at once: stop all workers, or wait for the longest
 * ttl. `each` false: CANCELLED, and what was done until then stays; it can be done again. */
HF_API enum hf_status hf_store_restored(struct hf_store *store,
                                        const struct hf_store_restored_options *options,
                                        struct hf_store_restored_report *ret_report,
                                        struct hf_error *error);

/* What was found of the token epoch of a namespace, and what it is now. */
struct hf_store_epoch_info {
    const char *ns;
    uint64_t epoch;
    bool known; /* it could be read, and was: */
    uint64_t epoch_before;
    bool lost;              /* it could not be read although tokens were given */
    uint64_t highest_token; /* that anything in the store shows */
};

/* Writes the token epoch of a namespace anew, above every token that anything in the store shows,
 * and never lower than it is known to be. `ns` NULL: of all namespaces that are found. `each` may
 * be NULL; false: stop, which is OK. */
HF_API enum hf_status hf_store_repair_epoch(
    struct hf_store *store, const char *ns,
    bool (*each)(void *argument, const struct hf_store_epoch_info *info), void *argument,
    struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
