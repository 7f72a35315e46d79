/* SPDX-License-Identifier: Apache-2.0 */
/* store.h: the objects in a store, with conditional writes, and the maintenance of a store. Objects
 * can be read, written, deleted, listed and copied. Maintenance consists of the probe, the store's
 * clock, and the steps after a restore.
 *
 *     struct hf_store *store;
 *     struct hf_store_put_options once = HF_STORE_PUT_OPTIONS;
 *     once.if_absent = true;
 *     if (hf_store_open("sqlite:jobs.db", NULL, &store, &error) == HF_OK &&
 *         hf_store_put(store, "reports/today.csv", "a,b\n", 4, &once, NULL, &error) == HF_OK)
 *         puts("the report is new");
 *     hf_store_close(store);
 *
 * WHAT A STORE GUARANTEES. A conditional write happens only if its condition holds at that moment.
 * If several writers use the same condition, exactly one succeeds. A write that returned HF_OK is
 * durable, as far as the store can confirm it, and every later read sees it. The statuses mean the
 * same on every store:
 *
 *     HF_OK            the call succeeded
 *     HF_NOT_FOUND     the object does not exist or, with if_match, no longer exists
 *     HF_NOT_MODIFIED  a get with if_none_match: the object still has that ETag
 *     HF_CONFLICT      the condition did not hold; nothing was changed
 *     HF_UNSURE        no reply to a write, which may have happened or may still happen
 *     HF_UNAVAILABLE   not done: the store is unreachable, throttled, full or out of memory
 *     HF_CANCELLED     the progress callback stopped the call; a write changed nothing
 *     HF_DENIED, HF_INVALID, HF_UNSUPPORTED, HF_CORRUPT   nothing was changed
 *
 * After HF_UNSURE, read the object and write it again with a condition.
 *
 * KEYS are 1 to 1024 bytes long. A key is passed as a string; to pass a key that contains NUL
 * bytes, set key_size. An ETag identifies one version of one object. Compare ETags, but never parse
 * them. Whether writing the same bytes again changes the ETag depends on the store.
 *
 * HOLDFAST'S OWN OBJECTS (lock tables, catalogs, chunks and others) are in the same store. Writing
 * them directly can break locks and lose data. Every function that writes therefore returns
 * HF_INVALID for the keys of these objects, unless the option `force` is set. Reading them is
 * always allowed. */
#ifndef HOLDFAST_STORE_H
#define HOLDFAST_STORE_H

#include "holdfast/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HF_KEY_BYTES_MAX 1024
#define HF_ETAG_MAX      128  /* bytes, including the NUL */
#define HF_STORE_URL_MAX 2049 /* bytes, including the NUL */

/* ---- URLs ---------------------------------------------------------------------------- */

/* Returns true if the text starts like a store URL: a known kind of store, followed by ':'. */
HF_API bool hf_store_is_url(const char *text);

/* Makes the path in the URL of a local store absolute, so the URL names the same store in any
 * working directory. "~/" stands for the home directory. The URL's options are unchanged. Returns
 * HF_INVALID if the URL is not valid for any store, or is too long. */
HF_API enum hf_status hf_store_url_absolute(const char *url, char ret_url[HF_STORE_URL_MAX],
                                            struct hf_error *error);

/* Checks whether the local store of this URL exists. If it does not, returns HF_NOT_FOUND, and the
 * error names the path. Creates nothing. Returns HF_OK for network stores without contacting
 * them. */
HF_API enum hf_status hf_store_check_present(const char *url, struct hf_error *error);

/* Splits the URL of an object: the URL of its store, '#', and its key, such as
 * "s3://bucket/prefix?region=eu#reports/today.csv" or "sqlite:jobs.db#reports/today.csv". The first
 * '#' ends the URL of the store, so write a '#' in a path or an option as %23. Everything after it
 * is the key, byte for byte, without escapes. *ret_key points into `url`. Opens nothing.
 *
 * Returns HF_INVALID if the text does not start like a store URL, the store's part is too long, or
 * the key is missing or too long. */
HF_API enum hf_status hf_store_url_split(const char *url, char ret_store[HF_STORE_URL_MAX],
                                         const char **ret_key, struct hf_error *error);

/* ---- Opening ------------------------------------------------------------------------- */

struct hf_store;

/* The operations of a store, and their names. */
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

/* Returns the name of a call, such as "get_file". */
HF_API const char *hf_store_call_name(enum hf_store_call call);

/* A completed call to the store. Calls by locks and other parts of the library are included. */
struct hf_store_request {
    size_t struct_size;
    enum hf_store_call call;
    const char *key; /* for a list: the prefix */
    size_t key_size;
    bool if_absent;
    const char *if_match; /* the ETag, or NULL */
    enum hf_status status;
    const char *why;  /* empty if the status is HF_OK */
    const char *etag; /* the current ETag of the object; NULL: unknown */
    uint64_t sent_bytes;
    uint64_t received_bytes;
    int64_t took_us;
    bool first_of_batch; /* several calls may share one request to the store */
    /* The length of the longest chain of requests that ends with this one, and in which each
     * request began after the one before it had ended. It starts at 1 when the store is opened. */
    uint64_t depth;
};

struct hf_store_options {
    size_t struct_size;
    /* Open the store for clients (hf_client_open_on). Everything that clients need is read and
     * checked during open, as by hf_client_open, with the same errors. */
    bool coordinates;
    bool must_exist; /* return HF_NOT_FOUND if the local store does not exist */

    /* Optional. Called after each call, from the thread that made it. Must not use the store. */
    void (*trace)(void *argument, const struct hf_store_request *request);
    void *trace_argument;

    /* Optional. Called during open, with a sentence for display, if requests to another machine are
     * not encrypted. */
    void (*warn)(void *argument, const char *sentence);
    void *warn_argument;
};
#define HF_STORE_OPTIONS                                                                   \
    HF_VALUE_(hf_store_options, sizeof(struct hf_store_options), false, false, NULL, NULL, \
              NULL, NULL)

/* Opens a store by URL, as hf_client_open does, and reads the bucket's description (one get). A
 * local store is created if it does not exist. `options` may be NULL.
 *
 * Returns HF_NOT_FOUND if must_exist is set and the store does not exist. Returns HF_INVALID if the
 * URL does not name a store. Returns HF_UNSUPPORTED if the bucket uses a feature that this version
 * does not support or, with `coordinates`, if the store does not provide the guarantees that locks
 * need. Returns HF_UNAVAILABLE, HF_DENIED or HF_CORRUPT if the store could not be read. */
HF_API enum hf_status hf_store_open(const char *url, const struct hf_store_options *options,
                                    struct hf_store **ret_store, struct hf_error *error);

/* Closes a store. The store stays open until its last client is closed. Does nothing if `store` is
 * NULL. */
HF_API void hf_store_close(struct hf_store *store);

/* Opens a client on an open store. A store may have several clients, each with its own namespace.
 * `options` may be NULL. If the store was opened without `coordinates`, its description is read now
 * (with the requests of hf_client_open), and other threads may only open clients during the call.
 * Otherwise like hf_client_open. */
HF_API enum hf_status hf_client_open_on(struct hf_store *store,
                                        const struct hf_client_options *options,
                                        struct hf_client **ret_client, struct hf_error *error);

/* Returns the store of a client. It is valid until the client is closed; do not close it. Returns
 * NULL if `client` is NULL. */
HF_API struct hf_store *hf_client_store(struct hf_client *client);

/* ---- Objects ------------------------------------------------------------------------- */

struct hf_object_info {
    size_t struct_size;
    char etag[HF_ETAG_MAX];
    uint64_t size; /* of the whole object, even if a range was read */
    /* Since 1970, by the store's clock, for display only; 0 after a put. */
    int64_t modified_ms;
};
#define HF_OBJECT_INFO HF_VALUE_(hf_object_info, sizeof(struct hf_object_info), { 0 }, 0, 0)

/* The progress of a transfer. */
struct hf_progress {
    size_t struct_size;
    uint64_t done_bytes;
    uint64_t total_bytes; /* 0: unknown */
};

/* Called from time to time while data is transferred. Return false to stop; the call then returns
 * HF_CANCELLED. */
typedef bool hf_progress_fn(void *argument, const struct hf_progress *progress);

struct hf_store_get_options {
    size_t struct_size;
    size_t key_size;           /* 0: the key is NUL-terminated */
    const char *if_match;      /* HF_CONFLICT unless the object has this ETag; NULL: any */
    const char *if_none_match; /* HF_NOT_MODIFIED if the object still has this ETag */
    uint64_t offset;           /* where to start; HF_INVALID if past the end of the object */
    uint64_t length;           /* at most this many bytes; 0: to the end */
    int64_t timeout_ms;        /* 0: the store's default */
    hf_progress_fn *progress;  /* for get_file; optional */
    void *progress_argument;
};
#define HF_STORE_GET_OPTIONS                                                                  \
    HF_VALUE_(hf_store_get_options, sizeof(struct hf_store_get_options), 0, NULL, NULL, 0, 0, \
              0, NULL, NULL)

/* Reads an object, or a range of it. Returns HF_INVALID if the data is larger than size_max bytes,
 * which must not exceed 256 MiB. Free the data with hf_free. `options` and `ret_info` may be
 * NULL. */
HF_API enum hf_status hf_store_get(struct hf_store *store, const char *key, size_t size_max,
                                   const struct hf_store_get_options *options, void **ret_data,
                                   size_t *ret_size, struct hf_object_info *ret_info,
                                   struct hf_error *error);

/* Writes an object to a file, starting at offset 0 of the file. If the call fails, the contents of
 * the file are undefined. A file that is longer than the object is not truncated. */
HF_API enum hf_status hf_store_get_file(struct hf_store *store, const char *key, int fd,
                                        const struct hf_store_get_options *options,
                                        struct hf_object_info *ret_info,
                                        struct hf_error *error);

struct hf_store_put_options {
    size_t struct_size;
    size_t key_size; /* 0: the key is NUL-terminated */
    bool if_absent;  /* HF_CONFLICT if the object exists */
    /* HF_CONFLICT unless the object has this ETag; HF_NOT_FOUND if the object does not exist. */
    const char *if_match;
    bool force;               /* allow writing Holdfast's own objects */
    int64_t timeout_ms;       /* 0: the store's default */
    hf_progress_fn *progress; /* for put_file; optional */
    void *progress_argument;
};
#define HF_STORE_PUT_OPTIONS                                                             \
    HF_VALUE_(hf_store_put_options, sizeof(struct hf_store_put_options), 0, false, NULL, \
              false, 0, NULL, NULL)

/* Writes an object atomically. The object may be at most 256 MiB in size. `options` and `ret_info`
 * may be NULL, and so may `data` if `size` is 0. */
HF_API enum hf_status hf_store_put(struct hf_store *store, const char *key, const void *data,
                                   size_t size, const struct hf_store_put_options *options,
                                   struct hf_object_info *ret_info, struct hf_error *error);

/* Writes a file as an object, from offset 0 to the end of the file. The file must not change during
 * the call. */
HF_API enum hf_status hf_store_put_file(struct hf_store *store, const char *key, int fd,
                                        const struct hf_store_put_options *options,
                                        struct hf_object_info *ret_info,
                                        struct hf_error *error);

struct hf_store_delete_options {
    size_t struct_size;
    size_t key_size; /* 0: the key is NUL-terminated */
    /* HF_CONFLICT unless the object has this ETag; HF_UNSUPPORTED if the store has no conditional
     * delete. */
    const char *if_match;
    bool force;         /* allow deleting Holdfast's own objects */
    int64_t timeout_ms; /* 0: the store's default */
};
#define HF_STORE_DELETE_OPTIONS                                                                \
    HF_VALUE_(hf_store_delete_options, sizeof(struct hf_store_delete_options), 0, NULL, false, \
              0)

/* Deletes an object. If the object does not exist, the call returns HF_OK, because not every store
 * reports the difference; with if_match, it returns HF_NOT_FOUND or HF_CONFLICT. `options` may be
 * NULL. */
HF_API enum hf_status hf_store_delete(struct hf_store *store, const char *key,
                                      const struct hf_store_delete_options *options,
                                      struct hf_error *error);

/* The result for one of several keys. `error` is valid only during the call. */
typedef bool hf_store_deleted_fn(void *argument, size_t index, const struct hf_error *error);

/* Deletes several objects independently of one another, in as few requests as the store allows. If
 * `sizes` is NULL, every key is NUL-terminated. `each` is optional. It is called once per key, in
 * order, when the store has replied to the request for that key. Return false to send no more
 * requests, which is not an error. Invalid keys, and keys that need `force`, are refused before
 * anything is deleted. options->key_size must be 0.
 *
 * Returns HF_OK if all objects are gone; otherwise returns the first failure. The other objects are
 * still deleted. */
HF_API enum hf_status hf_store_delete_many(struct hf_store *store, const char *const *keys,
                                           const size_t *sizes, size_t count,
                                           const struct hf_store_delete_options *options,
                                           hf_store_deleted_fn *each, void *argument,
                                           struct hf_error *error);

/* Checks a key, as every writing call does before it writes. Returns HF_INVALID if no object can
 * have this key or, without `force`, if it is the key of one of Holdfast's own objects. If
 * `key_size` is 0, the key is NUL-terminated. Local. */
HF_API enum hf_status hf_store_check_key(const char *key, size_t key_size, bool force,
                                         struct hf_error *error);

/* ---- Listing ------------------------------------------------------------------------- */

/* An entry of a listing: one object, or all objects whose keys share a prefix up to the
 * delimiter. */
struct hf_store_entry {
    size_t struct_size;
    const char *key;
    size_t key_size;
    bool is_prefix; /* only the key is set, and ends with the delimiter */
    const char *etag;
    uint64_t size;
    int64_t modified_ms;
    /* The next entry needs a new request: a good time to flush output. */
    bool last_of_page;
};

struct hf_store_list_options {
    size_t struct_size;
    size_t prefix_size; /* 0: the prefix is NUL-terminated */
    const char *after;  /* only keys after this one, in byte order; NULL: all */
    size_t after_size;  /* 0: `after` is NUL-terminated */
    /* Group keys by this byte: keys that are equal up to its first occurrence after the prefix
     * become one entry; 0: no grouping. */
    char delimiter;
    uint64_t max;       /* stop after this many entries; 0: no limit */
    int64_t timeout_ms; /* for each request; 0: the store's default */
};
#define HF_STORE_LIST_OPTIONS \
    HF_VALUE_(hf_store_list_options, sizeof(struct hf_store_list_options), 0, NULL, 0, 0, 0, 0)

typedef bool hf_store_each_fn(void *argument, const struct hf_store_entry *entry);

/* Calls `each` for every object whose key starts with `prefix` ("" for all), in byte order of the
 * keys. Return false from `each` to stop. Objects written during the listing may or may not be
 * listed, but no object is listed twice. `each` may use the store. If the call fails, the entries
 * before the failure have been listed. `options` may be NULL. */
HF_API enum hf_status hf_store_list(struct hf_store *store, const char *prefix,
                                    const struct hf_store_list_options *options,
                                    hf_store_each_fn *each, void *argument,
                                    struct hf_error *error);

/* ---- Copying ------------------------------------------------------------------------- */

/* An object that was copied, whose copy already existed, or that was deleted from the target. */
struct hf_store_copied {
    size_t struct_size;
    const char *source;
    size_t source_size;
    const char *target;
    size_t target_size;
    uint64_t size;
    uint32_t crc32c; /* of the bytes of the object; with `sync`, 0 if they were not read */
    bool copied;     /* false: the target already had the same bytes */
    bool deleted;    /* the target was deleted, because there is no such source */
};

struct hf_store_copy_options {
    size_t struct_size;
    size_t source_size; /* 0: the source key is NUL-terminated */
    size_t target_size; /* 0: the target key is NUL-terminated */
    bool if_absent;     /* replace nothing; HF_CONFLICT if the target has different bytes */
    bool force;         /* allow replacing Holdfast's own objects */
    bool count_first;   /* copy_all: list twice, so that progress includes the total */
    bool (*each)(void *argument,
                 const struct hf_store_copied *copied); /* optional; return false to stop */
    void *each_argument;
    hf_progress_fn *progress; /* optional */
    void *progress_argument;
    /* The members from here to choose_argument are only for copy_all. */
    bool dry_run;      /* change nothing; report what would be copied or deleted */
    bool sync;         /* make the target equal to the source, as described below */
    bool delete_extra; /* with `sync`: delete what only the target has */
    /* Only objects for which it returns true are copied or deleted; NULL: all. The key is that of
     * the source; for an object to delete, the key that its source would have. */
    bool (*choose)(void *argument, const char *key, size_t key_size);
    void *choose_argument;
    bool move; /* only for hf_store_copy: then delete the source, as described below */
    /* Only for copy_all: how the keys of the source's objects start in `to`, if `to` is another
     * handle for the same store or for a part of it; otherwise NULL. */
    const char *source_in_target;
    size_t source_in_target_size; /* 0: it is NUL-terminated */
};
#define HF_STORE_COPY_OPTIONS                                                                  \
    HF_VALUE_(hf_store_copy_options, sizeof(struct hf_store_copy_options), 0, 0, false, false, \
              false, NULL, NULL, NULL, NULL, false, false, false, NULL, NULL, false, NULL, 0)

struct hf_store_copy_report {
    size_t struct_size;
    uint64_t copied; /* objects */
    uint64_t copied_bytes;
    uint64_t equal;    /* objects that already had the same bytes */
    uint64_t vanished; /* objects deleted from the source during the copy */
    uint64_t deleted;  /* objects deleted from the target */
};
#define HF_STORE_COPY_REPORT \
    HF_VALUE_(hf_store_copy_report, sizeof(struct hf_store_copy_report), 0, 0, 0, 0, 0)

/* Copies an object within a store or between two stores. The object goes through a temporary file.
 * The copy is read back, and its size and CRC32C are compared with the source; the call returns
 * HF_CORRUPT if they differ. If the target already has the same bytes, it is not written. `options`
 * and `ret_report` may be NULL.
 *
 * Returns HF_NOT_FOUND if the object is not in `from`. Returns HF_INVALID if `target` is one of
 * Holdfast's own objects and `force` is not set, or if source and target are the same key of the
 * same handle. That two handles are the same store is not noticed: the copy finds equal bytes, and
 * a move deletes nothing.
 *
 * With `move`, the source is deleted once the copy has been read back, and only if it is still the
 * version that was copied; otherwise the call returns HF_CONFLICT and keeps the copy. The target is
 * never replaced by other bytes, as with if_absent. If it already has the same bytes, it is written
 * again before the source is deleted. So opposite moves at the same time never delete both copies,
 * and the call can be repeated if it was interrupted. Returns HF_INVALID for a source that is a
 * fenced object (holdfast/fenced.h) or, without `force`, one of Holdfast's own objects, and
 * HF_UNSUPPORTED, after the copy, if `from` has no conditional delete; of a store on the network
 * this is known only if it was probed, which `coordinates` ensures.
 *
 * If ETags are hashes of the bytes (etag_fresh is false, see the probe), or `to` is a store on the
 * network that was not probed, a target that already has the same bytes is refused with
 * HF_CONFLICT. On a `from` with such ETags, one case remains: if other clients delete the source
 * during the call, write the same bytes there again, and delete the target, the new source is
 * deleted. */
HF_API enum hf_status hf_store_copy(struct hf_store *from, const char *source,
                                    struct hf_store *to, const char *target,
                                    const struct hf_store_copy_options *options,
                                    struct hf_store_copy_report *ret_report,
                                    struct hf_error *error);

/* Copies every object whose key starts with `source`, and replaces that prefix with `target`. Both
 * may be "". Holdfast's own objects are copied if the target does not exist, as in a backup. The
 * placements of namespaces are recorded in the target; the verdict of the probe is not copied. The
 * first failure ends the call, and the error names the key. Objects that were copied before the
 * failure remain; call again to continue the copy. Within one store, returns HF_INVALID if `target`
 * starts with `source`, because the copies would be copied again, or if a copy would be part of the
 * source, because it could replace an object that has not been copied yet. That two handles are the
 * same store is known only from source_in_target.
 *
 * With `sync`, the copies are found by listing the target, which needs fewer requests if most
 * objects are equal. Objects of the same size are equal if both stores are S3 and their ETags are
 * equal MD5 sums; otherwise their bytes are compared. Only the version that was listed is replaced
 * or deleted: the call returns HF_CONFLICT if another client has written it meanwhile, and
 * HF_UNSUPPORTED, before anything is copied, if objects are to be deleted from a store without
 * conditional delete; of a store on the network this is known only if it was probed, which
 * `coordinates` ensures. Objects are deleted after all copies have succeeded, and only if they are
 * still missing in the source. For this, the target is listed again, so an object that another
 * client has created there meanwhile is deleted, too; but without `force`, one of Holdfast's own
 * objects ends the call with HF_INVALID. Within one store, neither prefix may start with the
 * other. */
HF_API enum hf_status hf_store_copy_all(struct hf_store *from, const char *source,
                                        struct hf_store *to, const char *target,
                                        const struct hf_store_copy_options *options,
                                        struct hf_store_copy_report *ret_report,
                                        struct hf_error *error);

/* ---- The probe ----------------------------------------------------------------------- */

/* The finding about one guarantee. Each row: constant, name, meaning. */
#define HF_FINDING_TABLE(ROW)                                                    \
    ROW(GOOD, "good", "the guarantee holds")                                     \
    ROW(LACKING, "lacking", "missing, but Holdfast does not need it")            \
    ROW(REFUSED, "refused", "missing and required: the store cannot hold locks") \
    ROW(WARNING, "warning", "works, but with a caveat")

#define HF_FINDING_ENUM_(name, word, text) HF_FINDING_##name,
enum hf_finding { HF_FINDING_TABLE(HF_FINDING_ENUM_) HF_FINDING_COUNT };
#undef HF_FINDING_ENUM_

/* Returns the name of a finding, such as "good". */
HF_API const char *hf_finding_name(enum hf_finding finding);

struct hf_store_finding {
    size_t struct_size;
    const char *what; /* a short name, such as "put if absent" */
    enum hf_finding finding;
    const char *detail;
};

struct hf_store_probe_options {
    size_t struct_size;
    bool no_save; /* do not save the findings in the store */
    bool (*each)(void *argument, const struct hf_store_finding *finding); /* optional */
    void *argument;
};
#define HF_STORE_PROBE_OPTIONS \
    HF_VALUE_(hf_store_probe_options, sizeof(struct hf_store_probe_options), false, NULL, NULL)

struct hf_store_probe_report {
    size_t struct_size;
    bool usable; /* for locks */
    uint32_t findings;
    uint32_t requests; /* requests made */
    bool delete_conditional;
    bool put_file_conditional; /* put_file honours conditions at any size */
    bool etag_fresh;           /* writing the same bytes again changes the ETag */
    bool list_ordered;         /* the store itself lists in byte order */
};
#define HF_STORE_PROBE_REPORT                                                                  \
    HF_VALUE_(hf_store_probe_report, sizeof(struct hf_store_probe_report), false, 0, 0, false, \
              false, false, false)

/* Probes whether a store provides the guarantees that locks need, on scratch objects that the probe
 * deletes. The verdict is saved in the store for 30 days, or for one day if the store fails the
 * probe.
 *
 * Returns HF_UNSUPPORTED if the store does not provide a guarantee; the error names it. Any other
 * failure means that the store could not be probed; no verdict is saved. `each` and `ret_report`
 * receive the findings so far, regardless of the status. Both are optional, and `options` may be
 * NULL. The first client that needs the verdict probes a network store automatically. Use this call
 * to see the findings, or to probe a store again. */
HF_API enum hf_status hf_store_probe(struct hf_store *store,
                                     const struct hf_store_probe_options *options,
                                     struct hf_store_probe_report *ret_report,
                                     struct hf_error *error);

/* ---- The store's clock --------------------------------------------------------------- */

#define HF_STORE_CLOCK_TABLE(ROW)                                           \
    ROW(NONE, "none", "no clock: leases are taken over only by watching")   \
    ROW(BOOT, "boot", "the boot-time clock of this machine, known exactly") \
    ROW(DATE, "date", "the dates of the store's replies, known within an interval")

#define HF_STORE_CLOCK_ENUM_(name, word, text) HF_STORE_CLOCK_##name,
enum hf_store_clock { HF_STORE_CLOCK_TABLE(HF_STORE_CLOCK_ENUM_) HF_STORE_CLOCK_COUNT };
#undef HF_STORE_CLOCK_ENUM_

/* Returns the name of a kind of clock, such as "date". */
HF_API const char *hf_store_clock_name(enum hf_store_clock kind);

#define HF_STORE_CLOCK_ID_MAX  65
#define HF_STORE_CLOCK_SAMPLES 16

/* One reply: the offset of the store's clock from the wall clock of this machine. */
struct hf_store_clock_sample {
    int64_t age_us;
    int64_t offset_min_us;
    int64_t offset_max_us;
};

struct hf_store_clock_report {
    size_t struct_size;
    enum hf_store_clock kind;
    char id[HF_STORE_CLOCK_ID_MAX]; /* two clocks with the same id show the same time */
    bool known;
    int64_t since_boot_us;
    /* The store time is between these two. For HF_STORE_CLOCK_DATE, it is counted from 1970;
     * otherwise, from boot. Both are 0 unless `known` is set. */
    int64_t earliest_us;
    int64_t latest_us;
    /* HF_STORE_CLOCK_DATE: the same bounds as offsets from the wall clock of this machine. */
    int64_t offset_min_us;
    int64_t offset_max_us;
    uint32_t drift_ppm; /* the drift that is allowed for between samples */
    uint32_t sample_count;
    struct hf_store_clock_sample samples[HF_STORE_CLOCK_SAMPLES]; /* newest first */
};
#define HF_STORE_CLOCK_REPORT                                              \
    HF_VALUE_(hf_store_clock_report, sizeof(struct hf_store_clock_report), \
              HF_STORE_CLOCK_NONE, { 0 }, false, 0, 0, 0, 0, 0, 0, 0, { { 0, 0, 0 } })

/* Reports the store time, and the samples it was computed from. On a network store, this takes
 * three requests. Returns HF_UNSUPPORTED if no reply contained a date. */
HF_API enum hf_status hf_store_clock(struct hf_store *store,
                                     struct hf_store_clock_report *ret_report,
                                     struct hf_error *error);

/* ---- After a restore ----------------------------------------------------------------- */

/* A namespace, or one of its lock tables. Strings are valid only during the call. */
struct hf_store_restored_info {
    size_t struct_size;
    const char *ns;     /* NULL: this is a table */
    uint64_t epoch;     /* of the namespace: the upper half of every token from now on */
    const char *table;  /* the key of the table; NULL: this is a namespace */
    bool damaged;       /* the table could not be read, and is replaced */
    int64_t barrier_ms; /* how long the table grants nothing */
};

struct hf_store_restored_options {
    size_t struct_size;
    bool dry_run; /* change nothing; report what would be done */
    /* A namespace to include even if it is not in the backup, or NULL. */
    const char *ns;
    const char *by; /* shown as the holder of the barriers; NULL: "hf_store_restored" */
    /* Optional. */
    bool (*each)(void *argument, const struct hf_store_restored_info *info);
    void *argument;
};
#define HF_STORE_RESTORED_OPTIONS                                                         \
    HF_VALUE_(hf_store_restored_options, sizeof(struct hf_store_restored_options), false, \
              NULL, NULL, NULL, NULL)

struct hf_store_restored_report {
    size_t struct_size;
    uint64_t namespaces;
    uint64_t tables;
    int64_t barrier_ms; /* the longest barrier */
};
#define HF_STORE_RESTORED_REPORT \
    HF_VALUE_(hf_store_restored_report, sizeof(struct hf_store_restored_report), 0, 0, 0)

/* Prepares a store that was restored from a backup. Call it before work resumes, because the backup
 * does not contain the latest grants. It raises the epoch of every namespace above all tokens that
 * may have been issued since the backup. It also stops every table from granting anything until all
 * earlier holders have noticed that their leases have ended. A lock whose table is not in the
 * backup is free immediately: stop all workers first, or wait for the longest ttl.
 *
 * If `each` returns false, the call returns HF_CANCELLED and keeps the changes made so far; you can
 * call it again. If the store was opened without `coordinates`, its description is read first, as
 * by hf_client_open_on. */
HF_API enum hf_status hf_store_restored(struct hf_store *store,
                                        const struct hf_store_restored_options *options,
                                        struct hf_store_restored_report *ret_report,
                                        struct hf_error *error);

/* The token epoch of a namespace, before and after a repair. */
struct hf_store_epoch_info {
    size_t struct_size;
    const char *ns;
    uint64_t epoch;
    bool known; /* the old epoch could be read, and is epoch_before */
    uint64_t epoch_before;
    bool lost;              /* the old epoch could not be read, although tokens were issued */
    uint64_t highest_token; /* the highest token found in the store */
};

/* Rewrites the token epoch of a namespace. The new epoch is above every token found in the store,
 * and never below the old epoch if that is known. If `ns` is NULL, repairs every namespace found.
 * `each` is optional; return false to stop. */
HF_API enum hf_status hf_store_repair_epoch(
    struct hf_store *store, const char *ns,
    bool (*each)(void *argument, const struct hf_store_epoch_info *info), void *argument,
    struct hf_error *error);

/* ---- Namespaces with pages ----------------------------------------------------------- */

/* Where the locks on paths and trees of a namespace are kept. By default they share one table,
 * which holds up to 1,000 leases. A namespace with pages has many such tables. The first segments
 * of a path determine its page, so that locks that can conflict are in the same page. In such a
 * namespace:
 *
 *   - A lock on a tree must have at least `segments` segments; otherwise hf_lock_new returns
 *     HF_INVALID.
 *   - The scopes of one lock must be in one page. Paths with the same first segments always are.
 *   - A page holds up to 1,000 leases. For 100,000 locks whose paths start in 1,000 different ways,
 *     4,096 pages leave enough room.
 *
 * Other locks do not depend on the placement. */
struct hf_placement {
    size_t struct_size;
    uint32_t pages;    /* 2 to 65,536; 0: all paths are in one table */
    uint32_t segments; /* how many segments determine the page: 1 to 16 */
};
#define HF_PLACEMENT HF_VALUE_(hf_placement, sizeof(struct hf_placement), 0, 1)

/* Creates a namespace with pages. A placement never changes, so the namespace must be new:
 * HF_MISMATCH if it is in use, or has another placement. If it already has this placement, the call
 * does nothing, or completes an interrupted creation. Clients that were opened before do not know
 * the pages, and their locks on paths return HF_UNSUPPORTED. From then on, versions of Holdfast
 * that do not know pages refuse the whole bucket. HF_UNSURE: call it again. If the store was opened
 * without `coordinates`, its description is read first, as by hf_client_open_on. */
HF_API enum hf_status hf_namespace_create(struct hf_store *store, const char *ns,
                                          const struct hf_placement *placement,
                                          struct hf_error *error);

/* Reads the placement of a namespace. Without pages, `pages` is 0, whether or not the namespace is
 * in use. Takes one request. */
HF_API enum hf_status hf_namespace_placement(struct hf_store *store, const char *ns,
                                             struct hf_placement *ret_placement,
                                             struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
