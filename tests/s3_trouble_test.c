/* SPDX-License-Identifier: Apache-2.0 */
/* s3_trouble_test.c: the s3 store on a real Ceph cluster with two gateways, while its daemons
 * are stopped, continued, killed and restarted.
 *
 * $HOLDFAST_CEPH is the directory that tests/servers/ceph-up has filled, with two gateways.
 * Whatever happens to the servers, no call exceeds its timeout, an OK is never lost, two
 * writers never both win, and work goes on afterwards. */
#include "store/store.h"
#include "test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BUCKET "holdfast-test"

static char run_name[32]; /* before all keys of this run */

/* ---- The cluster --------------------------------------------------------------------- */

static void read_word(const char *name, char *word, size_t size)
{
    char path[4200];
    const char *folder = getenv("HOLDFAST_CEPH");
    assert_non_null(folder);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(word, (int)size, file))
        fail_msg("%s cannot be read", path);
    fclose(file);
    word[strcspn(word, "\n")] = '\0';
}

static pid_t daemon_pid(const char *name)
{
    char file[64], word[32];
    snprintf(file, sizeof file, "run/%s.pid", name);
    read_word(file, word, sizeof word);
    return (pid_t)strtol(word, NULL, 10);
}

static void signal_daemon(const char *name, int signal_number)
{
    assert_int_equal(kill(daemon_pid(name), signal_number), 0);
}

/* Starts again whatever does not run. */
static void bring_up(void)
{
    char command[8400];
    snprintf(command, sizeof command, "'%s/servers/ceph-up' '%s' 2", getenv("HOLDFAST_TESTS"),
             getenv("HOLDFAST_CEPH"));
    assert_int_equal(system(command), 0);
}

static struct store *open_in(struct env *env, const char *bucket, int gateway,
                             const char *parameters)
{
    char file[32], endpoint[64], url[512];
    struct store *store = NULL;
    struct hf_error error;
    snprintf(file, sizeof file, "endpoint-%d", gateway);
    read_word(file, endpoint, sizeof endpoint);
    snprintf(url, sizeof url, "s3://%s/%s?endpoint=%s&etag=bare%s", bucket, run_name, endpoint,
             parameters);
    assert_status(HF_OK, store_open(env, view_of(url), &store, &error), &error);
    return store;
}

static struct store *open_gateway(int gateway, const char *parameters)
{
    return open_in(env_real(), BUCKET, gateway, parameters);
}

/* ---- Calls --------------------------------------------------------------------------- */

static enum hf_status put_text(struct store *store, const char *key, const char *text,
                               struct condition condition)
{
    struct put_call call = { .key = view_of(key),
                             .body = view_of(text),
                             .condition = condition };
    return store_put(store, &call);
}

/* A put that must succeed. */
static void must_put(struct store *store, const char *key, const char *text,
                     struct condition condition)
{
    struct put_call call = { .key = view_of(key),
                             .body = view_of(text),
                             .condition = condition };
    assert_status(HF_OK, store_put(store, &call), &call.error);
}

/* What is there now, patiently: the servers may just be coming back. Empty: nothing. */
static void read_text(struct store *store, const char *key, char *text, size_t size,
                      struct etag *ret_etag)
{
    struct mono_time end = mono_add(env_now(env_real()), SPAN_S(30));
    enum hf_status status = HF_UNAVAILABLE;
    while (status == HF_UNAVAILABLE && mono_before(env_now(env_real()), end)) {
        struct buffer body = BUFFER_INIT(size - 1);
        struct get_call call = { .key = view_of(key), .body = &body };
        status = store_get(store, &call);
        snprintf(text, size, "%.*s", VIEW_ARGS(buffer_view(&body)));
        if (ret_etag)
            *ret_etag = call.info.etag;
        buffer_release(&body);
        if (status != HF_OK && status != HF_NOT_FOUND && status != HF_UNAVAILABLE)
            fail_msg("get %s: %s", key, call.error.why);
    }
    assert_int_not_equal(status, HF_UNAVAILABLE);
}

static void assert_within(struct mono_time start, struct span most)
{
    struct span took = mono_since(env_now(env_real()), start);
    if (took.us > most.us)
        fail_msg("took %" PRId64 " ms, at most %" PRId64 " are allowed", took.us / 1000,
                 most.us / 1000);
}

/* ---- A gateway or the OSD stands still ----------------------------------------------- */

/* The put was given up on, but the gateway has it: it may land any time after. */
static void abandoned_puts_land_late_or_never(void **state)
{
    (void)state;
    int landed = 0;
    for (int trial = 0; trial < 5; trial++) {
        struct store *first = open_gateway(1, "&timeout=500ms");
        struct store *second = open_gateway(2, "");
        char key[32], text[32], found[64];
        snprintf(key, sizeof key, "late-%d", trial);
        snprintf(text, sizeof text, "from trial %d", trial);
        must_put(first, "warm", "x", (struct condition){ 0 });
        signal_daemon("client.rgw-1", SIGSTOP);
        struct mono_time start = env_now(env_real());
        enum hf_status status = put_text(first, key, text, if_absent());
        assert_within(start, SPAN_S(3));
        read_text(second, key, found, sizeof found, NULL);
        assert_string_equal(found, "");
        signal_daemon("client.rgw-1", SIGCONT);
        assert_int_equal(status, HF_UNSURE);
        /* Once a later swap has succeeded the late one can no longer win. */
        struct put_call settle = { .key = view_of(key),
                                   .body = VIEW("settled"),
                                   .condition = if_absent() };
        status = store_put(second, &settle);
        read_text(second, key, found, sizeof found, NULL);
        if (status == HF_OK)
            assert_string_equal(found, "settled");
        else
            assert_string_equal(found, text);
        landed += status != HF_OK;
        store_close(first);
        store_close(second);
    }
    print_message("# %d of 5 abandoned puts landed before the next one\n", landed);
}

static void a_stopped_osd_makes_writes_unsure(void **state)
{
    (void)state;
    struct store *first = open_gateway(1, "&timeout=700ms");
    struct store *second = open_gateway(2, "&timeout=700ms");
    struct store *patient = open_gateway(2, "");
    char found[64];
    must_put(first, "warm", "x", (struct condition){ 0 });
    must_put(second, "warm", "x", (struct condition){ 0 });
    signal_daemon("osd.0", SIGSTOP);
    struct mono_time start = env_now(env_real());
    enum hf_status one = put_text(first, "osd", "one", if_absent());
    enum hf_status two = put_text(second, "osd", "two", if_absent());
    struct buffer body = BUFFER_INIT(100);
    struct get_call get = { .key = VIEW("osd"), .body = &body };
    enum hf_status reading = store_get(first, &get);
    signal_daemon("osd.0", SIGCONT);
    assert_within(start, SPAN_S(6));
    assert_int_equal(one, HF_UNSURE);
    assert_int_equal(two, HF_UNSURE);
    assert_int_equal(reading, HF_UNAVAILABLE);
    buffer_release(&body);
    /* At most one of the two, and for ever. */
    enum hf_status third = put_text(patient, "osd", "three", if_absent());
    read_text(patient, "osd", found, sizeof found, NULL);
    if (third == HF_OK)
        assert_string_equal(found, "three");
    else
        assert_true(strcmp(found, "one") == 0 || strcmp(found, "two") == 0);
    store_close(first);
    store_close(second);
    store_close(patient);
}

/* ---- A gateway dies ------------------------------------------------------------------ */

static void a_killed_gateway_loses_nothing_that_was_ok(void **state)
{
    (void)state;
    enum { PUTS = 200 };
    struct store *first = open_gateway(1, "&timeout=5s");
    struct store *second = open_gateway(2, "");
    enum hf_status statuses[PUTS];
    for (int i = 0; i < PUTS; i++) {
        char key[32];
        snprintf(key, sizeof key, "killed-%d", i);
        if (i == PUTS / 2)
            signal_daemon("client.rgw-1", SIGKILL);
        statuses[i] = put_text(first, key, key, if_absent());
        assert_true(statuses[i] == HF_OK || statuses[i] == HF_UNSURE ||
                    statuses[i] == HF_UNAVAILABLE);
    }
    assert_int_equal(statuses[0], HF_OK);
    assert_int_equal(statuses[PUTS - 1], HF_UNAVAILABLE);
    for (int i = 0; i < PUTS; i++) {
        char key[32], found[64];
        snprintf(key, sizeof key, "killed-%d", i);
        read_text(second, key, found, sizeof found, NULL);
        if (statuses[i] == HF_OK)
            assert_string_equal(found, key);
        if (statuses[i] == HF_UNAVAILABLE)
            assert_string_equal(found, "");
    }
    bring_up();
    must_put(first, "after", "x", (struct condition){ 0 });
    store_close(first);
    store_close(second);
}

static bool kill_at_half(void *argument, uint64_t done, uint64_t total)
{
    bool *killed = argument;
    if (!*killed && done > total / 2) {
        *killed = true;
        signal_daemon("client.rgw-1", SIGKILL);
    }
    return true;
}

static void kill_during_upload(const char *key, off_t size, struct condition condition,
                               enum hf_status expected)
{
    struct store *first = open_gateway(1, "&timeout=2s");
    struct store *second = open_gateway(2, "");
    char path[] = "/tmp/holdfast-trouble-XXXXXX", found[64];
    int fd = mkstemp(path);
    bool killed = false;
    struct progress progress = { kill_at_half, &killed };
    struct put_call call = { .key = view_of(key), .condition = condition };
    assert_true(fd >= 0);
    unlink(path);
    assert_int_equal(ftruncate(fd, size), 0);
    must_put(first, "warm", "x", (struct condition){ 0 });
    struct mono_time start = env_now(env_real());
    enum hf_status status = store_put_file(first, &call, fd, &progress);
    assert_within(start, SPAN_S(30));
    assert_true(killed);
    if (status != expected)
        fail_msg("%s: %s", hf_status_name(status), call.error.why);
    read_text(second, key, found, sizeof found, NULL);
    assert_string_equal(found, "");
    close(fd);
    bring_up();
    store_close(first);
    store_close(second);
}

static void a_cut_upload_leaves_nothing(void **state)
{
    (void)state;
    kill_during_upload("cut-single", 60 * (off_t)MIB, if_absent(), HF_UNSURE);
    kill_during_upload("cut-parts", 200 * (off_t)MIB, (struct condition){ 0 }, HF_UNAVAILABLE);
}

static void a_file_in_parts_comes_back_whole(void **state)
{
    (void)state;
    const size_t size = 70 * MIB + 11;
    struct store *store = open_gateway(1, "");
    char path[] = "/tmp/holdfast-trouble-XXXXXX";
    int fd = mkstemp(path), back = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    char *bytes = malloc(size), *found = malloc(size);
    assert_true(fd >= 0 && back >= 0 && bytes && found);
    unlink(path);
    env_random(env_real(), bytes, size);
    assert_int_equal(pwrite(fd, bytes, size, 0), size);
    struct put_call put = { .key = VIEW("parts") };
    struct get_call get = { .key = VIEW("parts") };
    assert_status(HF_OK, store_put_file(store, &put, fd, NULL), &put.error);
    assert_status(HF_OK, store_get_file(store, &get, back, NULL), &get.error);
    assert_true(etag_equal(&put.etag, &get.info.etag));
    assert_int_equal(get.info.size, size);
    assert_int_equal(pread(back, found, size, 0), size);
    assert_memory_equal(bytes, found, size);
    /* Its ETag serves as any other. */
    must_put(store, "parts", "small", if_match(&put.etag));
    free(bytes);
    free(found);
    close(fd);
    close(back);
    store_close(store);
}

/* ---- Races --------------------------------------------------------------------------- */

#define RACERS 64

struct racer {
    struct store *store;
    const char *key;
    struct condition condition;
    char text[32];
    enum hf_status status;
    struct env_task *task;
};

static void race_once(void *argument)
{
    struct racer *racer = argument;
    racer->status = put_text(racer->store, racer->key, racer->text, racer->condition);
}

/* One round of all racers, every other one at the second gateway; checks that the object is the
 * winner's. Returns its ETag. */
static struct etag race_round(struct store *stores[2], const char *key,
                              struct condition condition, int round)
{
    struct racer racers[RACERS];
    struct hf_error error;
    struct etag etag;
    char found[64];
    int winner = -1;
    for (int i = 0; i < RACERS; i++) {
        racers[i] =
            (struct racer){ .store = stores[i % 2], .key = key, .condition = condition };
        snprintf(racers[i].text, sizeof racers[i].text, "round %d racer %d", round, i);
        assert_status(
            HF_OK, env_task_start(env_real(), race_once, &racers[i], &racers[i].task, &error),
            &error);
    }
    for (int i = 0; i < RACERS; i++) {
        env_task_join(env_real(), racers[i].task);
        if (racers[i].status == HF_OK) {
            assert_int_equal(winner, -1);
            winner = i;
        } else {
            assert_true(racers[i].status == HF_CONFLICT || racers[i].status == HF_UNSURE);
        }
    }
    assert_int_not_equal(winner, -1);
    read_text(stores[0], key, found, sizeof found, &etag);
    assert_string_equal(found, racers[winner].text);
    return etag;
}

static void gateways_agree_on_one_winner(void **state)
{
    (void)state;
    const char *asked = getenv("HOLDFAST_TEST_ROUNDS");
    int rounds = asked ? (int)strtol(asked, NULL, 10) : 40;
    struct store *stores[2] = { open_gateway(1, ""), open_gateway(2, "") };
    struct etag etag = { 0 };
    for (int round = 0; round < rounds; round++) {
        char key[32];
        snprintf(key, sizeof key, "race-%d", round);
        race_round(stores, key, if_absent(), round);
        etag = race_round(stores, "race", round ? if_match(&etag) : if_absent(), round);
    }
    store_close(stores[0]);
    store_close(stores[1]);
}

/* ---- Counting under trouble ---------------------------------------------------------- */

#define COUNTERS  8
#define COUNT_MAX 100000

struct counting {
    atomic_bool stop;
    atomic_uchar wins[COUNT_MAX]; /* how often a value was written with OK */
    atomic_uint oks;
    atomic_uint unsure;
    atomic_uint strange;
};

struct counter {
    struct counting *shared;
    struct store *store;
    int number;
    struct env_task *task;
};

static void count_once(struct counter *counter, int attempt)
{
    struct buffer body = BUFFER_INIT(64);
    struct get_call get = { .key = VIEW("count"), .body = &body };
    if (store_get(counter->store, &get) == HF_OK) {
        unsigned long value = strtoul(buffer_text(&body), NULL, 10) + 1;
        char text[64];
        snprintf(text, sizeof text, "%lu %d %d", value, counter->number, attempt);
        enum hf_status status =
            put_text(counter->store, "count", text, if_match(&get.info.etag));
        if (status == HF_OK && value < COUNT_MAX) {
            atomic_fetch_add(&counter->shared->wins[value], 1);
            atomic_fetch_add(&counter->shared->oks, 1);
        } else if (status == HF_UNSURE) {
            atomic_fetch_add(&counter->shared->unsure, 1);
        } else if (status != HF_CONFLICT && status != HF_UNAVAILABLE) {
            atomic_fetch_add(&counter->shared->strange, 1);
        }
    }
    buffer_release(&body);
}

static void count_on(void *argument)
{
    struct counter *counter = argument;
    for (int attempt = 0; attempt < COUNT_MAX && !atomic_load(&counter->shared->stop);
         attempt++)
        count_once(counter, attempt);
}

/* Each in turn stands still for longer than a time-out, then there is calm. */
static void make_trouble(void)
{
    static const char *const daemons[] = { "osd.0", "client.rgw-1", "client.rgw-2" };
    for (int i = 0; i < 6; i++) {
        signal_daemon(daemons[i % 3], SIGSTOP);
        env_sleep(env_real(), SPAN_MS(700));
        signal_daemon(daemons[i % 3], SIGCONT);
        env_sleep(env_real(), SPAN_MS(400));
    }
}

static void no_value_is_won_twice(void **state)
{
    (void)state;
    struct counting *counting = calloc(1, sizeof *counting);
    struct counter counters[COUNTERS];
    struct hf_error error;
    for (int i = 0; i < COUNTERS; i++) {
        counters[i] = (struct counter){ .shared = counting, .number = i };
        counters[i].store = open_gateway(1 + i % 2, "&timeout=300ms");
    }
    struct store *patient = open_gateway(1, "");
    must_put(patient, "count", "0", if_absent());
    for (int i = 0; i < COUNTERS; i++)
        assert_status(HF_OK,
                      env_task_start(env_real(), count_on, &counters[i], &counters[i].task,
                                     &error),
                      &error);
    make_trouble();
    unsigned before_calm = atomic_load(&counting->oks);
    env_sleep(env_real(), SPAN_MS(1000));
    atomic_store(&counting->stop, true);
    for (int i = 0; i < COUNTERS; i++) {
        env_task_join(env_real(), counters[i].task);
        store_close(counters[i].store);
    }
    char found[64];
    read_text(patient, "count", found, sizeof found, NULL);
    unsigned long last = strtoul(found, NULL, 10);
    unsigned oks = atomic_load(&counting->oks);
    for (unsigned long value = 1; value <= last && value < COUNT_MAX; value++)
        assert_true(atomic_load(&counting->wins[value]) <= 1);
    print_message("# count %lu, %u sure, %u unsure\n", last, oks,
                  atomic_load(&counting->unsure));
    assert_int_equal(atomic_load(&counting->strange), 0);
    assert_true(oks > before_calm); /* after the trouble work goes on */
    assert_true(last >= oks && last <= oks + atomic_load(&counting->unsure));
    store_close(patient);
    free(counting);
}

/* ---- Mistakes of people -------------------------------------------------------------- */

static struct span off; /* by so much the clock below is */

static struct wall_time read_wrong_clock(struct env *env)
{
    (void)env;
    return wall_add(env_wall(env_real()), off);
}

static void a_wrong_clock_does_no_harm(void **state)
{
    (void)state;
    const struct span offs[] = { SPAN_S(-3700), SPAN_S(3700), SPAN_S(-30LL * 365 * 86400) };
    struct env_ops ops = *env_real()->ops;
    ops.wall = read_wrong_clock;
    struct env env = { &ops };
    for (size_t i = 0; i < sizeof offs / sizeof offs[0]; i++) {
        off = offs[i];
        struct store *store = open_in(&env, BUCKET, 1, "");
        must_put(store, "clock", "x", (struct condition){ 0 });
        off = SPAN_S(0);
        must_put(store, "clock", "y", (struct condition){ 0 });
        store_close(store);
    }
}

static void expect_refusal(struct store *store, enum hf_status status, const char *says)
{
    struct put_call call = { .key = VIEW("k"), .body = VIEW("x"), .condition = if_absent() };
    assert_int_equal(store_put(store, &call), status);
    if (!strstr(call.error.why, says))
        fail_msg("'%s' does not say '%s'", call.error.why, says);
    store_close(store);
}

static void mistakes_are_explained(void **state)
{
    (void)state;
    expect_refusal(open_in(env_real(), "no-such-bucket", 1, ""), HF_INVALID, "create it");
    char secret[64];
    snprintf(secret, sizeof secret, "%s", getenv("AWS_SECRET_ACCESS_KEY"));
    setenv("AWS_SECRET_ACCESS_KEY", "wrong", 1);
    expect_refusal(open_gateway(1, ""), HF_DENIED, "AWS_SECRET_ACCESS_KEY");
    setenv("AWS_SECRET_ACCESS_KEY", secret, 1);
    char key[64];
    snprintf(key, sizeof key, "%s", getenv("AWS_ACCESS_KEY_ID"));
    setenv("AWS_ACCESS_KEY_ID", "nobody", 1);
    expect_refusal(open_gateway(1, ""), HF_DENIED, "AWS_ACCESS_KEY_ID");
    setenv("AWS_ACCESS_KEY_ID", key, 1);
}

int main(void)
{
    snprintf(run_name, sizeof run_name, "trouble-%016" PRIx64, env_random_u64(env_real()));
    const struct CMUnitTest tests[] = {
        IT("wrong keys and a missing bucket are explained", mistakes_are_explained),
        IT("a wrong clock does no harm, nor does setting it", a_wrong_clock_does_no_harm),
        IT("a file that goes up in parts comes back whole", a_file_in_parts_comes_back_whole),
        IT("64 tasks at two gateways have one winner", gateways_agree_on_one_winner),
        IT("a put that was given up on lands late or never, and never beside another",
           abandoned_puts_land_late_or_never),
        IT("while the OSD stands still writes are unsure, reads unavailable, in time",
           a_stopped_osd_makes_writes_unsure),
        IT("no value is won twice while daemons stop and go on", no_value_is_won_twice),
        IT("a gateway that is killed loses nothing that was OK",
           a_killed_gateway_loses_nothing_that_was_ok),
        IT("an upload cut by the death of its gateway leaves nothing",
           a_cut_upload_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
