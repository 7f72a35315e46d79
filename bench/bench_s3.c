/* bench_s3.c: what the s3 store must show, on a real Ceph gateway on loopback.
 *
 *   put      puts of 1 KiB on one connection, against bare libcurl sending the same signed puts
 *   many     rounds of 64 puts at once, by store_put_many on 64 connections, against 64 threads
 *            with a handle each; on both sides a round ends when all its puts have
 *   sign     the time that signing a put takes
 *   list     100,000 keys listed, against bare libcurl fetching the same pages
 *   stream   the memory that put_file and get_file of 1 GiB need
 *
 * Starts its own cluster with SERVERS/ceph-up (--servers=, default tests/servers) in a new
 * folder below $TMPDIR or /tmp, and stops it. */
#include "base/hash.h"
#include "place.h"
#include "store/s3/sign.h"
#include "store/store.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BODY_BYTES   1024
#define MANY         64
#define LIST_KEYS    100000
#define STREAM_BYTES GIB

/* The gateway's host and port. */
static const char *gateway(void)
{
    return bench_ceph() + strlen("http://");
}

static struct store *open_store(const char *parameters)
{
    char url[400];
    struct store *store;
    struct hf_error error;
    snprintf(url, sizeof url, "s3://" CEPH_BUCKET "?endpoint=%s&etag=bare%s", bench_ceph(),
             parameters);
    if (store_open(env_real(), view_of(url), &store, &error) != HF_OK)
        bench_die("%s", error.why);
    return store;
}

/* ---- Bare libcurl -------------------------------------------------------------------- */

/* One handle that signs and sends as the store does, with nothing around it. */
struct bare {
    CURL *handle;
    struct s3_signing_key key;
    char day[S3_DAY_SIZE + 1];
    struct view body;
    size_t sent;
    struct buffer reply;
};

static size_t bare_read(char *to, size_t size, size_t count, void *argument)
{
    struct bare *bare = argument;
    struct view left = view_first(view_from(bare->body, bare->sent), size * count);
    memcpy(to, left.data, left.size);
    bare->sent += left.size;
    return left.size;
}

static size_t bare_write(char *from, size_t size, size_t count, void *argument)
{
    struct bare *bare = argument;
    return buffer_append(&bare->reply, (struct view){ from, size * count }) ? size * count : 0;
}

static void bare_open(struct bare *bare)
{
    *bare = (struct bare){ .handle = curl_easy_init(), .reply = BUFFER_INIT(8 * MIB) };
    curl_easy_setopt(bare->handle, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(bare->handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(bare->handle, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(bare->handle, CURLOPT_READFUNCTION, bare_read);
    curl_easy_setopt(bare->handle, CURLOPT_READDATA, bare);
    curl_easy_setopt(bare->handle, CURLOPT_WRITEFUNCTION, bare_write);
    curl_easy_setopt(bare->handle, CURLOPT_WRITEDATA, bare);
}

static void bare_close(struct bare *bare)
{
    curl_easy_cleanup(bare->handle);
    buffer_release(&bare->reply);
}

static struct curl_slist *add_line(struct curl_slist *lines, const char *name,
                                   const char *value)
{
    char line[1024];
    snprintf(line, sizeof line, "%s: %s", name, value);
    return curl_slist_append(lines, line);
}

/* Signs and sends; `md5` is NULL for a get. Dies on anything but 200. */
static void bare_send(struct bare *bare, const char *method, const char *path,
                      const char *query, const char *hash, const char *md5)
{
    char date[S3_DATE_SIZE + 1], url[1024];
    struct buffer authorization = BUFFER_INIT(4096);
    s3_date_text(env_wall(env_real()), date);
    if (memcmp(bare->day, date, S3_DAY_SIZE) != 0) {
        memcpy(bare->day, date, S3_DAY_SIZE);
        s3_signing_key(VIEW(CEPH_SECRET_KEY), view_of(bare->day), VIEW("us-east-1"), VIEW("s3"),
                       &bare->key);
    }
    const struct s3_header headers[] = { { VIEW("host"), view_of(gateway()) },
                                         { VIEW("x-amz-content-sha256"), view_of(hash) },
                                         { VIEW("x-amz-date"), view_of(date) },
                                         { VIEW("content-md5"), view_of(md5 ? md5 : "") } };
    const struct s3_signing signing = {
        view_of(method), view_of(path), view_of(query),    headers,    md5 ? 4 : 3,
        view_of(hash),   view_of(date), VIEW("us-east-1"), VIEW("s3"), VIEW(CEPH_ACCESS_KEY)
    };
    s3_sign(&signing, &bare->key, &authorization);
    struct curl_slist *lines = curl_slist_append(NULL, "Expect:");
    lines = add_line(lines, "x-amz-content-sha256", hash);
    lines = add_line(lines, "x-amz-date", date);
    lines = md5 ? add_line(lines, "content-md5", md5) : lines;
    lines = add_line(lines, "Authorization", buffer_text(&authorization));
    snprintf(url, sizeof url, "http://%s%s%s%s", gateway(), path, query[0] ? "?" : "", query);
    curl_easy_setopt(bare->handle, CURLOPT_URL, url);
    curl_easy_setopt(bare->handle, CURLOPT_HTTPHEADER, lines);
    bare->sent = 0;
    buffer_clear(&bare->reply);
    CURLcode code = curl_easy_perform(bare->handle);
    long status = 0;
    curl_easy_getinfo(bare->handle, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK || status != 200)
        bench_die("bare %s: %s, status %ld", method, curl_easy_strerror(code), status);
    curl_slist_free_all(lines);
    buffer_release(&authorization);
}

static void bare_put(struct bare *bare, const char *key, struct view body)
{
    char hash[S3_HASH_TEXT_SIZE], md5[S3_MD5_TEXT_SIZE], path[256];
    snprintf(path, sizeof path, "/" CEPH_BUCKET "/%s", key);
    s3_payload_hash(body, hash);
    s3_content_md5(body, md5);
    bare->body = body;
    curl_easy_setopt(bare->handle, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(bare->handle, CURLOPT_INFILESIZE_LARGE, (curl_off_t)body.size);
    bare_send(bare, "PUT", path, "", hash, md5);
}

/* ---- put ----------------------------------------------------------------------------- */

static void fill_body(char body[BODY_BYTES], unsigned number)
{
    memset(body, 'x', BODY_BYTES);
    snprintf(body, BODY_BYTES, "%u", number);
}

static double puts_by_store(struct store *store, double seconds)
{
    char body[BODY_BYTES], key[32];
    double start = now_s();
    unsigned done = 0;
    for (; now_s() - start < seconds; done++) {
        fill_body(body, done);
        snprintf(key, sizeof key, "put-%u", done % 64);
        struct put_call call = { .key = view_of(key), .body = { body, sizeof body } };
        if (store_put(store, &call) != HF_OK)
            bench_die("put: %s", call.error.why);
    }
    return done / (now_s() - start);
}

static double puts_by_libcurl(struct bare *bare, double seconds)
{
    char body[BODY_BYTES], key[32];
    double start = now_s();
    unsigned done = 0;
    for (; now_s() - start < seconds; done++) {
        fill_body(body, done);
        snprintf(key, sizeof key, "put-%u", done % 64);
        bare_put(bare, key, (struct view){ body, sizeof body });
    }
    return done / (now_s() - start);
}

static void bench_put(struct bench *bench)
{
    struct series ours = { .count = 0 }, theirs = ours;
    struct store *store = open_store("&connections=1");
    struct bare bare;
    bare_open(&bare);
    puts_by_libcurl(&bare, 0.5);
    for (size_t round = 0; round < bench->rounds; round++) {
        series_add(&ours, puts_by_store(store, bench->seconds));
        series_add(&theirs, puts_by_libcurl(&bare, bench->seconds));
    }
    bench_figure(bench, "puts of 1 KiB, one connection, store_put", "puts/s", &ours);
    bench_figure(bench, "the same by bare libcurl", "puts/s", &theirs);
    bench_ratio(bench, "store_put / bare libcurl", &ours, &theirs, 1 / 1.1);
    bare_close(&bare);
    store_close(store);
}

/* ---- many ---------------------------------------------------------------------------- */

static char many_keys[MANY][32];

static double many_by_store(struct store *store, double seconds)
{
    static struct put_call calls[MANY];
    static char bodies[MANY][BODY_BYTES];
    double start = now_s();
    unsigned rounds = 0;
    for (; now_s() - start < seconds; rounds++) {
        for (size_t i = 0; i < MANY; i++) {
            fill_body(bodies[i], rounds);
            calls[i] = (struct put_call){ .key = view_of(many_keys[i]),
                                          .body = { bodies[i], BODY_BYTES } };
        }
        if (store_put_many(store, calls, MANY) != HF_OK)
            bench_die("put_many failed");
    }
    return MANY * rounds / (now_s() - start);
}

/* The threads of one run. The first of them keeps the time and names the last round while that
 * is under way, so that all of them end with it. */
struct putters {
    pthread_barrier_t barrier;
    double seconds;
    double start;
    double end;
    _Atomic unsigned last_round;
};

struct putter {
    pthread_t thread;
    size_t number;
    struct putters *all;
};

static void *put_by_thread(void *argument)
{
    struct putter *putter = argument;
    struct putters *all = putter->all;
    struct bare bare;
    char body[BODY_BYTES];
    bare_open(&bare);
    fill_body(body, 0);
    bare_put(&bare, many_keys[putter->number],
             (struct view){ body, sizeof body }); /* connect */
    pthread_barrier_wait(&all->barrier);
    if (putter->number == 0)
        all->start = now_s();
    for (unsigned round = 0; round <= all->last_round; round++) {
        fill_body(body, round);
        bare_put(&bare, many_keys[putter->number], (struct view){ body, sizeof body });
        if (putter->number == 0 && now_s() - all->start >= all->seconds)
            all->last_round = round;
        pthread_barrier_wait(&all->barrier);
    }
    if (putter->number == 0)
        all->end = now_s();
    bare_close(&bare);
    return NULL;
}

static double many_by_threads(double seconds)
{
    struct putter putters[MANY];
    struct putters all = { .seconds = seconds, .last_round = UINT_MAX };
    pthread_barrier_init(&all.barrier, NULL, MANY);
    for (size_t i = 0; i < MANY; i++) {
        putters[i] = (struct putter){ .number = i, .all = &all };
        if (pthread_create(&putters[i].thread, NULL, put_by_thread, &putters[i]) != 0)
            bench_die("no thread");
    }
    for (size_t i = 0; i < MANY; i++)
        pthread_join(putters[i].thread, NULL);
    pthread_barrier_destroy(&all.barrier);
    return MANY * (all.last_round + 1) / (all.end - all.start);
}

static void bench_many(struct bench *bench)
{
    struct series ours = { .count = 0 }, theirs = ours;
    struct store *store = open_store("&connections=64");
    for (unsigned i = 0; i < MANY; i++)
        snprintf(many_keys[i], sizeof many_keys[i], "many-%u", i);
    many_by_store(store, 0.5);
    for (size_t round = 0; round < bench->rounds; round++) {
        series_add(&ours, many_by_store(store, bench->seconds));
        series_add(&theirs, many_by_threads(bench->seconds));
    }
    bench_figure(bench, "rounds of 64 puts, store_put_many", "puts/s", &ours);
    bench_figure(bench, "the same by 64 threads with a libcurl handle each", "puts/s", &theirs);
    bench_ratio(bench, "store_put_many / 64 threads", &ours, &theirs, 0.9);
    store_close(store);
}

/* ---- sign ---------------------------------------------------------------------------- */

static double sign_once_us(void)
{
    enum { TIMES = 20000 };
    const struct s3_header headers[] = {
        { VIEW("host"), VIEW("bucket.s3.amazonaws.com") },
        { VIEW("x-amz-content-sha256"), VIEW(S3_EMPTY_PAYLOAD) },
        { VIEW("x-amz-date"), VIEW("20130524T000000Z") },
        { VIEW("content-md5"), VIEW("1B2M2Y8AsgTpgAmY7PhCfg==") },
        { VIEW("if-match"), VIEW("0123456789abcdef") }
    };
    struct s3_signing_key key = { { 1 } };
    struct buffer to = BUFFER_INIT(4096);
    double start = now_s();
    for (int i = 0; i < TIMES; i++) {
        const struct s3_signing signing = { VIEW("PUT"),
                                            VIEW("/namespace/meta/some-name-of-a-lock.json"),
                                            VIEW(""),
                                            headers,
                                            5,
                                            VIEW(S3_EMPTY_PAYLOAD),
                                            VIEW("20130524T000000Z"),
                                            VIEW("us-east-1"),
                                            VIEW("s3"),
                                            VIEW("AKIAIOSFODNN7EXAMPLE") };
        buffer_clear(&to);
        if (!s3_sign(&signing, &key, &to))
            bench_die("signing failed");
    }
    double took = now_s() - start;
    buffer_release(&to);
    return took / TIMES * 1e6;
}

static void bench_sign(struct bench *bench)
{
    struct series times = { .count = 0 };
    for (size_t round = 0; round < bench->rounds; round++)
        series_add(&times, sign_once_us());
    bench_figure(bench, "signing a put", "us", &times);
    bench_bar(bench, "signing a put", "us", series_median(&times), 20, /* at_most */ true);
}

/* ---- list ---------------------------------------------------------------------------- */

static void fill_bucket(struct store *store)
{
    struct put_call *calls = calloc(BATCH_MAX, sizeof *calls);
    char(*keys)[32] = calloc(BATCH_MAX, sizeof *keys);
    if (!calls || !keys)
        bench_die("no memory");
    for (unsigned from = 0; from < LIST_KEYS; from += BATCH_MAX) {
        for (unsigned i = 0; i < BATCH_MAX; i++) {
            snprintf(keys[i], sizeof keys[i], "list/key-%08u", from + i);
            calls[i] = (struct put_call){ .key = view_of(keys[i]), .body = VIEW("x") };
        }
        if (store_put_many(store, calls, BATCH_MAX) != HF_OK)
            bench_die("the keys to list cannot be put");
    }
    free(calls);
    free(keys);
}

static double list_by_store(struct store *store)
{
    char after[64] = "";
    unsigned seen = 0;
    bool more = true;
    double start = now_s();
    while (more) {
        struct list_call call = { .prefix = VIEW("list/"), .after = view_of(after) };
        if (store_list(store, &call) != HF_OK)
            bench_die("list: %s", call.error.why);
        seen += (unsigned)call.count;
        more = call.more;
        if (call.count > 0)
            snprintf(after, sizeof after, "%.*s", VIEW_ARGS(call.entries[call.count - 1].key));
        list_release(&call);
    }
    if (seen != LIST_KEYS)
        bench_die("listed %u keys", seen);
    return now_s() - start;
}

/* Fetches the same pages and looks at none of them but for where to go on. */
static double list_by_libcurl(struct bare *bare)
{
    char query[256], after[64] = "";
    double start = now_s();
    curl_easy_setopt(bare->handle, CURLOPT_HTTPGET, 1L);
    for (unsigned page = 1; page <= LIST_KEYS / LIST_PAGE_MAX; page++) {
        snprintf(query, sizeof query,
                 "encoding-type=url&list-type=2&max-keys=1000&prefix=list%%2F%s%s",
                 after[0] ? "&start-after=" : "", after);
        bare_send(bare, "GET", "/" CEPH_BUCKET, query, S3_EMPTY_PAYLOAD, NULL);
        snprintf(after, sizeof after, "list%%2Fkey-%08u", page * LIST_PAGE_MAX - 1);
    }
    return now_s() - start;
}

static void bench_list(struct bench *bench)
{
    struct series ours = { .count = 0 }, theirs = ours;
    struct store *store = open_store("");
    struct bare bare;
    bare_open(&bare);
    fill_bucket(store);
    list_by_libcurl(&bare);
    for (size_t round = 0; round < bench->rounds; round++) {
        series_add(&ours, list_by_store(store) * 1000);
        series_add(&theirs, list_by_libcurl(&bare) * 1000);
    }
    bench_figure(bench, "100,000 keys by store_list", "ms", &ours);
    bench_figure(bench, "the same pages by bare libcurl", "ms", &theirs);
    bench_ratio_at_most(bench, "store_list / bare libcurl, in time", &ours, &theirs, 1.2);
    bare_close(&bare);
    store_close(store);
}

/* ---- stream -------------------------------------------------------------------------- */

static uint64_t hash_of_file(int fd)
{
    char *piece = malloc(MIB);
    uint64_t hash = 0;
    ssize_t got;
    for (off_t at = 0; (got = pread(fd, piece, MIB, at)) > 0; at += got)
        hash = hash * 31 + hash_xxh3((struct view){ piece, (size_t)got });
    free(piece);
    return hash;
}

static void write_source(int fd)
{
    char *piece = malloc(MIB);
    for (size_t at = 0; at < STREAM_BYTES / MIB; at++) {
        env_random(env_real(), piece, MIB);
        if (write(fd, piece, MIB) != (ssize_t)MIB)
            bench_die("the source cannot be written");
    }
    free(piece);
}

/* In a process of its own, whose memory is measured. */
static void stream_child(int source, int target, bool conditional)
{
    struct store *store = open_store("");
    struct put_call put = { .key = VIEW("stream"),
                            .condition = conditional ? if_absent() : (struct condition){ 0 } };
    struct get_call get = { .key = VIEW("stream") };
    struct delete_call removal = { .key = VIEW("stream") };
    if (store_put_file(store, &put, source, NULL) != HF_OK)
        bench_die("put_file: %s", put.error.why);
    if (store_get_file(store, &get, target, NULL) != HF_OK)
        bench_die("get_file: %s", get.error.why);
    if (store_delete(store, &removal) != HF_OK)
        bench_die("delete: %s", removal.error.why);
    store_close(store);
    _exit(0);
}

static int open_scratch(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", bench_folder(), name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        bench_die("%s: %s", path, strerror(errno));
    return fd;
}

static void bench_stream_way(struct bench *bench, int source, bool conditional)
{
    struct series rate = { .count = 0 };
    int target = open_scratch("target"), status;
    struct rusage usage;
    char name[64];
    double start = now_s();
    pid_t pid = fork();
    if (pid == 0)
        stream_child(source, target, conditional);
    if (wait4(pid, &status, 0, &usage) < 0 || status != 0)
        bench_die("the streaming child failed");
    series_add(&rate, 2.0 * (double)(STREAM_BYTES / MIB) / (now_s() - start));
    if (hash_of_file(source) != hash_of_file(target))
        bench_die("what came down is not what went up");
    const char *way = conditional ? "one put" : "in parts";
    snprintf(name, sizeof name, "1 GiB up, %s, and down", way);
    bench_figure(bench, name, "MiB/s", &rate);
    snprintf(name, sizeof name, "peak memory of it, %s", way);
    bench_bar(bench, name, "MiB", (double)usage.ru_maxrss / 1024, 64, /* at_most */ true);
    close(target);
}

static void bench_stream(struct bench *bench)
{
    bench_ceph(); /* by us, not by a child whose memory is measured */
    int source = open_scratch("source");
    write_source(source);
    bench_stream_way(bench, source, /* conditional */ true);
    bench_stream_way(bench, source, /* conditional */ false);
    close(source);
}

/* ---- Program ------------------------------------------------------------------------- */

static const struct bench_part parts[] = {
    { "stream", bench_stream }, { "put", bench_put },   { "many", bench_many },
    { "sign", bench_sign },     { "list", bench_list }, { NULL, NULL },
};

int main(int argc, char **argv)
{
    struct bench bench = { .rounds = PAIRS, .seconds = 0.7 };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    return bench_main(&bench, parts, argc, argv);
}
