/* SPDX-License-Identifier: Apache-2.0 */
/* upgrade.c: `store upgrade` switches the feature `checksums` on and off while clients work.
 * Besides the programs of this version there are two others, which the nodes play: one of an
 * earlier version, which removes checksums with its writes, and one of a later version, which
 * records a feature that this version does not know. In a session, a node opens the store, uses
 * keys, and upgrades the bucket or takes the upgrade back. A run fails if
 *
 *   - in a session that was opened after the unknown feature was recorded, something is written;
 *   - the feature `checksums` is switched on or off in a bucket with the unknown feature;
 *   - a write of the format document loses the unknown feature, or a member that others have added;
 *   - an upgrade, or its way back, is reported as done, and was not at any instant since it began;
 *   - it is reported as not done, and is recorded;
 *   - after one was reported as done, an earlier request switches the feature;
 *   - after an upgrade, a document has no checksum that no earlier version has written since;
 *   - a key loses a change, or has one that was refused (bank_checker.h). */
#include "scrub/upgrade.h"
#include "base/check.h"
#include "base/layout.h"
#include "holdfast.h"
#include "lock/client.h"
#include "sim/checkers/bank_checker.h"
#include "sim/run.h"
#include "sim/world/skew.h"
#include "store/bucket.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KEYS         3
#define CALLS_MAX    4096
#define TEXT_MAX     ((size_t)64 * 1024)
#define REST_MAX     SPAN_S(6)
#define TTL_MS       5000
#define FAULT_MAX    SPAN_S(60)
#define LATE_BOUND   SPAN_S(86400)
#define OTHERS_NONCE "eeeeeeeeeeeeeeee"
#define UNKNOWN      "\"tomorrow\""
#define KNOWN        "\"checksums\""

static const char *const key_names[KEYS] = { "jar", "jug", "tin" };

/* A call that was reported as not done. */
struct refused_call {
    unsigned node;
    int64_t from_us, to_us; /* its requests were sent then */
};

struct upgrade_work {
    struct run *run;
    struct bank_checker *bank;
    struct bucket_watch watch;
    struct skew skew;
    const char *list; /* in which the unknown feature is: read_only or incompatible */
    uint64_t left[NODES_MAX + 1];
    bool unknown_on, known_on, has_more;
    int64_t unknown_since_us;          /* when it was last recorded */
    int64_t on_until_us, off_until_us; /* of `checksums`; the current state lasts until now */
    int64_t done_since_us; /* the latest beginning of a switch that was reported as done */
    int64_t barred_since_us[NODES_MAX + 1]; /* a session that must not write; 0: it may */
    int64_t
        switched_us[NODES_MAX + 1]; /* when the node sent its last switch that was applied */
    int64_t stripped_us[KEYS];      /* when an earlier version last wrote the key */
    struct refused_call *refused;
    size_t refused_count;
};

static bool contains(struct view text, const char *word)
{
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= text.size; i++)
        if (memcmp(text.data + i, word, size) == 0)
            return true;
    return false;
}

/* ---- What the store applied ------------------------------------------------------------ */

static void switched(struct upgrade_work *work, const struct net_sender *sender, bool on)
{
    int64_t now = world_now_us(work->run->world);
    unsigned node = sender->node ? node_number(sender->node) : 0;
    if (work->unknown_on)
        world_fail(work->run->world,
                   "n%u switches checksums in a bucket whose feature it does not know", node);
    if (sender->sent_us < work->done_since_us)
        world_fail(work->run->world,
                   "a request of n%u switches checksums %s, and was sent before a switch began "
                   "that is done",
                   node, on ? "on" : "off");
    *(on ? &work->off_until_us : &work->on_until_us) = now;
    work->known_on = on;
    work->switched_us[node] = sender->sent_us;
    for (size_t i = 0; i < work->refused_count; i++) {
        const struct refused_call *call = &work->refused[i];
        if (call->node == node && sender->sent_us >= call->from_us &&
            sender->sent_us <= call->to_us)
            world_fail(work->run->world, "n%u was told that nothing is recorded, and it is",
                       node);
    }
}

static void format_changed(struct upgrade_work *work, const struct bucket_change *change,
                           const struct net_sender *sender)
{
    bool unknown = contains(change->body, UNKNOWN), known = contains(change->body, KNOWN);
    bool has_more = contains(change->body, "\"later\": 7");
    if (contains(change->body, OTHERS_NONCE)) { /* the later version has written it */
        if (unknown && !work->unknown_on)
            work->unknown_since_us = world_now_us(work->run->world);
        work->unknown_on = unknown;
    } else if (unknown != work->unknown_on) {
        world_fail(work->run->world, "the unknown feature is %s by n%u",
                   unknown ? "restored" : "lost", sender->node ? node_number(sender->node) : 0);
    }
    if (work->has_more && !has_more)
        world_fail(work->run->world, "a member of the format document is lost");
    work->has_more = has_more;
    if (known != work->known_on)
        switched(work, sender, known);
}

static void upgrade_changed(void *argument, const struct bucket_change *change)
{
    struct upgrade_work *work = argument;
    struct net_sender sender = net_sender(work->run->net);
    unsigned node = sender.node ? node_number(sender.node) : 0;
    int64_t barred = work->barred_since_us[node];
    bool by_others = contains(change->body, OTHERS_NONCE);
    if (barred > 0 && sender.sent_us >= barred && !by_others)
        world_fail(
            work->run->world,
            "n%u writes %.*s, and opened the bucket after an unknown feature was recorded",
            node, VIEW_ARGS(change->key));
    if (view_equal(change->key, VIEW(LAYOUT_BUCKET_KEY)))
        format_changed(work, change, &sender);
}

/* ---- Programs of other versions -------------------------------------------------------- */

/* Replaces the first `from` by `to` in the text, which has room for it. */
static bool edit(char *text, const char *from, const char *to)
{
    char *at = strstr(text, from);
    if (!at)
        return false;
    size_t old = strlen(from), fresh = strlen(to);
    memmove(at + fresh, at + old, strlen(at + old) + 1);
    memcpy(at, to, fresh);
    return true;
}

/* Reads an object into a string; false: there is none, or no reply. */
static bool read_text(struct store *store, const char *key, char *text, struct etag *etag,
                      enum hf_status *status)
{
    struct buffer body = BUFFER_INIT(TEXT_MAX / 2);
    struct get_call get = { .key = view_of(key), .body = &body };
    *status = store_get(store, &get);
    if (*status == HF_OK) {
        memcpy(text, body.data, body.size);
        text[body.size] = '\0';
        *etag = get.info.etag;
    }
    buffer_release(&body);
    return *status == HF_OK;
}

/* A checksum is 9 bytes at the end of `write`, which has a nonce of 32 digits. */
static void strip_checksum(char *text)
{
    char *write = strstr(text, "\"write\":"), *mark = write ? strchr(write, '~') : NULL;
    if (mark && strcspn(mark, "\"") == 9)
        memmove(mark, mark + 9, strlen(mark + 9) + 1);
}

static void set_nonce(struct env *env, char *text)
{
    char *write = strstr(text, "\"write\":"), *quote = write ? strchr(write + 8, '"') : NULL;
    char nonce[33] = OTHERS_NONCE;
    snprintf(nonce + 16, 17, "%016" PRIx64, env_random_u64(env));
    if (quote)
        memcpy(quote + 1, nonce, 32);
}

/* The later version records its feature, or removes it. */
static void play_later(struct upgrade_work *work, struct store *store)
{
    char *text = malloc(TEXT_MAX), from[64], to[64];
    struct etag etag = { 0 };
    enum hf_status status;
    check(text);
    bool there = read_text(store, LAYOUT_BUCKET_KEY, text, &etag, &status);
    if (!there && status == HF_NOT_FOUND)
        snprintf(
            text, TEXT_MAX,
            "{ \"format\": \"%s\",\n  \"write\": \"00000000000000000000000000000000\",\n"
            "  \"features\": { \"compatible\": [], \"read_only\": [], \"incompatible\": [] },\n"
            "  \"later\": 7 }\n",
            LAYOUT_BUCKET_FORMAT);
    if (there || status == HF_NOT_FOUND) {
        strip_checksum(text);
        set_nonce(store->env, text);
        snprintf(from, sizeof from, "\"%s\": [", work->list);
        snprintf(to, sizeof to, "\"%s\": [" UNKNOWN ", ", work->list);
        if (!edit(text, UNKNOWN ", ", "") && !edit(text, ", " UNKNOWN, "") &&
            !edit(text, UNKNOWN, "")) {
            edit(text, from, to);
            edit(text, ", ]", "]");
        }
        struct put_call put = { .key = VIEW(LAYOUT_BUCKET_KEY),
                                .body = view_of(text),
                                .condition = there ? if_match(&etag) : if_absent() };
        (void)store_put(store, &put);
    }
    free(text);
}

/* An earlier version writes a key, and knows no checksums. */
static void play_earlier(struct upgrade_work *work, struct store *store, size_t key)
{
    char *text = malloc(TEXT_MAX), name[64];
    struct etag etag;
    enum hf_status status;
    check(text);
    snprintf(name, sizeof name, "default/meta/%s.json", key_names[key]);
    if (read_text(store, name, text, &etag, &status)) {
        strip_checksum(text);
        struct put_call put = { .key = view_of(name),
                                .body = view_of(text),
                                .condition = if_match(&etag) };
        work->stripped_us[key] = INT64_MAX; /* until its result is known */
        if (store_put(store, &put) != HF_UNSURE)
            work->stripped_us[key] = world_now_us(work->run->world);
    }
    free(text);
}

/* ---- This version ----------------------------------------------------------------------- */

static void use_key(struct upgrade_work *work, struct store *store, size_t number)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_key_options how = HF_KEY_OPTIONS;
    struct hf_client *client;
    struct hf_key *key;
    struct hf_error error;
    char text[64];
    options.skew_tolerance_ms = work->skew.tolerance_ms;
    how.ttl_ms = TTL_MS;
    check(client_new(store, &options, &client, &error) == HF_OK);
    check(hf_key_new(client, key_names[number], &how, &key, &error) == HF_OK);
    if (hf_key_acquire(key, /* wait_ms */ 2000, NULL, &error) == HF_OK) {
        uint64_t operation = bank_checker_writes(work->bank, number, VIEW(""), 0);
        bank_checker_text(operation, 0, 32, text);
        enum hf_status status = hf_key_update(key, text, 32, NULL, NULL, &error);
        bool staged = status == HF_OK;
        if (status != HF_OK)
            bank_checker_told_write(work->bank, operation, /* staged */ true, status);
        status = hf_key_release(key, HF_COMMIT, &error);
        if (staged && status == HF_OK)
            bank_checker_told_published(work->bank, operation);
    }
    hf_key_free(key);
    hf_client_close(client);
}

/* Every document is sealed, unless an earlier version has written it since the upgrade began. */
static void check_sealed(struct upgrade_work *work, int64_t began)
{
    for (size_t i = 0; i < KEYS; i++) {
        char name[64];
        snprintf(name, sizeof name, "default/meta/%s.json", key_names[i]);
        struct view body = bucket_peek(net_bucket(work->run->net), view_of(name));
        struct view head = view_first(body, body.size < 192 ? body.size : 192);
        if (body.data && !contains(head, "~") && work->stripped_us[i] < began)
            world_fail(work->run->world, "the bucket is upgraded, and %s has no checksum",
                       key_names[i]);
    }
}

static void upgrade_bucket(struct upgrade_work *work, struct store *store, unsigned node)
{
    int64_t began = world_now_us(work->run->world);
    struct upgrade_options options = { .undo = env_random_below(store->env, 2) == 0 };
    struct hf_store_upgrade_report report;
    struct hf_error error = { 0 };
    enum hf_status status = upgrade_run(store, &options, &report, &error);
    bool on = !options.undo;
    int64_t last = on ? work->on_until_us : work->off_until_us;
    trace_line(world_trace(work->run->world), "n%u: %s ends: %s", node, on ? "upgrade" : "undo",
               hf_status_name(status));
    if (status == HF_OK && work->known_on != on && last < began)
        world_fail(work->run->world, "n%u was told that checksums are switched %s", node,
                   on ? "on" : "off");
    if (status == HF_OK && began > work->done_since_us)
        work->done_since_us = began;
    if (status == HF_OK && on && report.left == 0)
        check_sealed(work, began);
    bool refused = status != HF_OK && status != HF_UNSURE && status != HF_TIMEOUT;
    if (!refused || report.is_on == on)
        return;
    if (work->switched_us[node] >= began)
        world_fail(work->run->world, "n%u was told %s, and the feature was switched", node,
                   hf_status_name(status));
    check(work->refused_count < CALLS_MAX);
    work->refused[work->refused_count++] =
        (struct refused_call){ node, began, world_now_us(work->run->world) };
}

/* ---- Sessions --------------------------------------------------------------------------- */

static void act(struct upgrade_work *work, struct store *store, unsigned node, bool is_earlier)
{
    struct env *env = store->env;
    size_t key = (size_t)env_random_below(env, KEYS);
    uint64_t what = env_random_below(env, 8);
    if (what < 3)
        use_key(work, store, key);
    else if (what < 6)
        upgrade_bucket(work, store, node);
    else if (is_earlier)
        play_earlier(work, store, key);
    else if (what == 7)
        play_later(work, store);
}

/* Opens the store, and works for a while. What it may do is decided by what was recorded then. */
static void run_session(struct upgrade_work *work, struct node *node)
{
    unsigned number = node_number(node);
    struct env *env = node_env(node);
    struct hf_error error;
    int64_t began = world_now_us(work->run->world);
    bool was_known = work->known_on;
    work->barred_since_us[number] = 0;
    struct store *store = net_store_open(work->run->net, node);
    check(store);
    enum hf_status status = bucket_check(store, BUCKET_OBJECTS, &error);
    bool barred = work->unknown_on && work->unknown_since_us < began;
    if (barred)
        work->barred_since_us[number] = world_now_us(work->run->world);
    for (uint64_t i = 1 + env_random_below(env, 3); i > 0 && status == HF_OK; i--) {
        act(work, store, number, /* is_earlier */ !barred && !was_known);
        env_sleep(env, env_jitter(env, REST_MAX));
    }
    store_close(store);
}

static void upgrade_program(struct node *node, void *argument)
{
    struct upgrade_work *work = argument;
    struct env *env = node_env(node);
    uint64_t *left = &work->left[node_number(node)];
    while (*left > 0) {
        --*left; /* a session that a crash cut short is not repeated */
        run_count_operation(work->run);
        run_session(work, node);
        env_sleep(env, env_jitter(env, REST_MAX));
    }
}

/* ---- Start and end ----------------------------------------------------------------------- */

static void tune_upgrade(struct run *run, struct plans *plans)
{
    struct prng prng = world_stream(run->world, STREAM_WORKLOAD);
    struct skew skew = skew_draw(&prng);
    skew_tune(&skew, plans);
    plans->chaos.suspend_max = FAULT_MAX;
    plans->net.plan.slow_max = plans->net.plan.late_max = FAULT_MAX;
}

static void *start_upgrade(struct run *run)
{
    struct upgrade_work *work = calloc(1, sizeof *work);
    struct bank_checker_options keys = { .keys = key_names,
                                         .key_count = KEYS,
                                         .late_bound = LATE_BOUND };
    struct prng prng = world_stream(run->world, STREAM_WORKLOAD);
    check(work);
    work->run = run;
    work->skew = skew_draw(&prng);
    work->list = prng_below(&prng, 3) == 0 ? "incompatible" : "read_only";
    work->refused = calloc(CALLS_MAX, sizeof *work->refused);
    check(work->refused);
    work->bank = bank_checker_new(run, &keys);
    work->watch = (struct bucket_watch){ .changed = upgrade_changed, .argument = work };
    bucket_add_watch(net_bucket(run->net), &work->watch);
    for (unsigned i = 1; i <= run->options->nodes; i++) {
        work->left[i] = run->options->operations / run->options->nodes + 1;
        node_boot(world_node(run->world, i - 1), upgrade_program, work);
    }
    return work;
}

static void check_upgrade(struct run *run, void *state)
{
    const struct upgrade_work *work = state;
    for (unsigned i = 1; i <= run->options->nodes; i++)
        if (work->left[i] > 0)
            world_fail(run->world, "node %u has %" PRIu64 " sessions left", i, work->left[i]);
}

static void free_upgrade(void *state)
{
    struct upgrade_work *work = state;
    bank_checker_free(work->bank);
    free(work->refused);
    free(work);
}

const struct workload workload_upgrade = {
    .name = "upgrade",
    .about = "store upgrade switches a feature on and off while other versions are at work",
    .tune = tune_upgrade,
    .start = start_upgrade,
    .check_at_end = check_upgrade,
    .free = free_upgrade,
};
