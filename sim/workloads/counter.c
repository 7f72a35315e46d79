/* SPDX-License-Identifier: Apache-2.0 */
/* counter.c: all nodes increment one counter by compare-and-swap.
 *
 * The object contains the value and, for each node, the last of its increments that took effect. A
 * node that got UNSURE, or a conflict that its own write may have caused, reads the object to see
 * whether its increment is there. Each write contains a nonce, because ETags may be content hashes.
 *
 * The checker sees each write that the store applied, and each result that a node got. */
#include "base/check.h"
#include "base/parse.h"
#include "sim/run.h"

#include <inttypes.h>
#include <stdlib.h>

#define KEY           VIEW("counter")
#define ATTEMPTS_MAX  40
#define BACKOFF_FIRST SPAN_MS(20)
#define BACKOFF_MAX   SPAN_S(5)
#define BODY_MAX      2048

/* The result that a node got for an increment. */
enum told { TOLD_NOTHING, TOLD_DONE, TOLD_UNSURE, TOLD_NOT_DONE };

struct increment {
    unsigned node;
    enum told told;
    bool landed;
};

struct counter {
    struct run *run;
    struct bucket_watch watch;
    struct increment *increments; /* numbered from 1, as in the object */
    uint64_t started;
    uint64_t room;
    uint64_t landed;
    uint64_t left[NODES_MAX + 1]; /* operations left for each node while faults occur */
    bool done_in_calm[NODES_MAX + 1];
};

/* ---- The object ---------------------------------------------------------------------- */

/* "<value> <increment that wrote it> <nonce> <last increment of node 1> <of node 2> ..." */
struct document {
    uint64_t value;
    uint64_t writer;
    uint64_t nonce;
    uint64_t last[NODES_MAX + 1];
};

static void document_print(const struct document *document, unsigned nodes, struct buffer *body)
{
    buffer_print(body, "%" PRIu64 " %" PRIu64 " %" PRIu64, document->value, document->writer,
                 document->nonce);
    for (unsigned i = 1; i <= nodes; i++)
        buffer_print(body, " %" PRIu64, document->last[i]);
    check(!body->failed);
}

static bool parse_next(struct view *rest, uint64_t *ret_value)
{
    struct hf_error error;
    return parse_u64(view_cut(rest, ' '), UINT64_MAX, ret_value, &error) == HF_OK;
}

static bool document_parse(struct view body, unsigned nodes, struct document *ret_document)
{
    bool good = parse_next(&body, &ret_document->value);
    good = parse_next(&body, &ret_document->writer) && good;
    good = parse_next(&body, &ret_document->nonce) && good;
    for (unsigned i = 1; i <= nodes; i++)
        good = parse_next(&body, &ret_document->last[i]) && good;
    return good && body.size == 0;
}

/* ---- Operations of a node ------------------------------------------------------------ */

struct client {
    struct counter *counter;
    struct env *env;
    struct store *store;
    unsigned node;
    unsigned nodes;
    uint64_t number;       /* of the increment in progress */
    bool open;             /* a write of it may still take effect if the object is still ... */
    struct etag open_etag; /* ... this version (none: absent) */
};

static enum hf_status load(struct client *client, struct document *ret_document,
                           struct etag *ret_etag)
{
    struct buffer body = BUFFER_INIT(BODY_MAX);
    struct get_call get = { .key = KEY, .body = &body };
    enum hf_status status = store_get(client->store, &get);
    *ret_document = (struct document){ 0 };
    *ret_etag = (struct etag){ 0 };
    if (status == HF_OK) {
        check(document_parse(buffer_view(&body), client->nodes, ret_document));
        *ret_etag = get.info.etag;
    }
    buffer_release(&body);
    return status == HF_NOT_FOUND ? HF_OK : status;
}

static enum hf_status save(struct client *client, struct document *document,
                           const struct etag *etag)
{
    document->value++;
    document->writer = client->number;
    document->nonce = env_random_u64(client->env);
    document->last[client->node] = client->number;
    struct buffer body = BUFFER_INIT(BODY_MAX);
    document_print(document, client->nodes, &body);
    struct put_call put = { .key = KEY,
                            .body = buffer_view(&body),
                            .condition = etag->size ? if_match(etag) : if_absent() };
    enum hf_status status = store_put(client->store, &put);
    buffer_release(&body);
    return status;
}

/* Reads and writes once. Returns OK if the increment is done, and CONFLICT if it is not; otherwise
 * the outcome is unknown, or the round must be retried. */
static enum hf_status attempt(struct client *client)
{
    struct document document;
    struct etag etag;
    enum hf_status status = load(client, &document, &etag);
    if (status != HF_OK)
        return status;
    if (document.last[client->node] == client->number)
        return HF_OK;
    if (client->open && !etag_equal(&etag, &client->open_etag))
        client->open = false; /* that version never returns, so this node's write must fail */
    status = save(client, &document, &etag);
    if (status == HF_UNSURE || status == HF_CONFLICT) {
        client->open = true;
        client->open_etag = etag;
    }
    return status;
}

static enum told increment(struct client *client)
{
    struct span backoff = BACKOFF_FIRST;
    client->open = false;
    for (int i = 0; i < ATTEMPTS_MAX; i++) {
        if (attempt(client) == HF_OK)
            return TOLD_DONE;
        env_sleep(client->env, env_jitter(client->env, backoff));
        backoff = span_smaller(SPAN_US(backoff.us * 2), BACKOFF_MAX);
    }
    return client->open ? TOLD_UNSURE : TOLD_NOT_DONE;
}

static enum told one_increment(struct client *client)
{
    struct counter *counter = client->counter;
    if (counter->started == counter->room)
        world_fail(counter->run->world, "%" PRIu64 " increments did not suffice",
                   counter->room);
    client->number = ++counter->started;
    struct increment *record = &counter->increments[client->number];
    record->node = client->node;
    record->told = increment(client);
    return record->told;
}

static void program(struct node *node, void *argument)
{
    struct counter *counter = argument;
    struct client client = {
        .counter = counter,
        .env = node_env(node),
        .store = net_store_open(counter->run->net, node),
        .node = node_number(node),
        .nodes = counter->run->options->nodes,
    };
    check(client.store);
    while (counter->left[client.node] > 0) {
        counter->left[client.node]--;
        one_increment(&client);
        env_sleep(client.env, env_jitter(client.env, SPAN_S(2)));
    }
    if (world_now_us(counter->run->world) < counter->run->calm_us)
        env_sleep_until(client.env, node_moment(node, counter->run->calm_us));
    counter->done_in_calm[client.node] = one_increment(&client) == TOLD_DONE;
    store_close(client.store);
}

/* ---- The checker ----------------------------------------------------------------------- */

static void changed(void *argument, const struct bucket_change *change)
{
    struct counter *counter = argument;
    struct world *world = counter->run->world;
    struct document document;
    if (!change->body.data ||
        !document_parse(change->body, counter->run->options->nodes, &document)) {
        world_fail(world, "a write left something that is no counter");
        return;
    }
    if (document.value != counter->landed + 1)
        world_fail(world, "the counter stood at %" PRIu64 ", and a write made it %" PRIu64,
                   counter->landed, document.value);
    if (document.writer < 1 || document.writer > counter->started) {
        world_fail(world, "increment %" PRIu64 " took effect and was never begun",
                   document.writer);
        return;
    }
    struct increment *record = &counter->increments[document.writer];
    if (record->landed)
        world_fail(world, "increment %" PRIu64 " of node %u took effect twice", document.writer,
                   record->node);
    record->landed = true;
    counter->landed++;
}

static void checker_increment(struct world *world, uint64_t number,
                              const struct increment *record)
{
    if (record->told == TOLD_DONE && !record->landed)
        world_fail(world,
                   "node %u was told that increment %" PRIu64
                   " is done, but it never took effect",
                   record->node, number);
    if (record->told == TOLD_NOT_DONE && record->landed)
        world_fail(world,
                   "node %u was told that increment %" PRIu64
                   " is definitely not done, but it took effect",
                   record->node, number);
}

static void checker(struct run *run, void *state)
{
    struct counter *counter = state;
    uint64_t expected = 0;
    for (uint64_t i = 1; i <= counter->started; i++) {
        const struct increment *record = &counter->increments[i];
        checker_increment(run->world, i, record);
        bool unsure = record->told == TOLD_UNSURE || record->told == TOLD_NOTHING;
        expected += record->told == TOLD_DONE || (unsure && record->landed);
    }
    struct document document = { 0 };
    struct view body = bucket_peek(net_bucket(run->net), KEY);
    if (!body.data || !document_parse(body, run->options->nodes, &document))
        world_fail(run->world, "there is no counter at the end");
    else if (document.value != expected)
        world_fail(run->world,
                   "the counter ends at %" PRIu64 ", but %" PRIu64 " increments happened",
                   document.value, expected);
    for (unsigned i = 1; i <= run->options->nodes; i++)
        if (!counter->done_in_calm[i])
            world_fail(run->world, "node %u could not increment after the faults had stopped",
                       i);
}

/* ---- Creation ------------------------------------------------------------------------ */

static void *start(struct run *run)
{
    struct counter *counter = calloc(1, sizeof *counter);
    check(counter);
    unsigned nodes = run->options->nodes;
    counter->run = run;
    /* Only the last increment of a node may be incomplete, however often the node crashes. */
    counter->room = run->options->operations + 64 * (uint64_t)nodes;
    counter->increments = calloc(counter->room + 1, sizeof *counter->increments);
    check(counter->increments);
    counter->watch = (struct bucket_watch){ .changed = changed, .argument = counter };
    bucket_add_watch(net_bucket(run->net), &counter->watch);
    for (unsigned i = 0; i < run->options->operations; i++)
        counter->left[1 + i % nodes]++;
    for (unsigned i = 0; i < nodes; i++)
        node_boot(world_node(run->world, i), program, counter);
    return counter;
}

static void free_state(void *state)
{
    struct counter *counter = state;
    free(counter->increments);
    free(counter);
}

const struct workload workload_counter = {
    .name = "counter",
    .about =
        "nodes increment one counter by compare-and-swap; each increment counts exactly once",
    .start = start,
    .check_at_end = checker,
    .free = free_state,
};
