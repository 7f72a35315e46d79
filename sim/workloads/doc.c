/* SPDX-License-Identifier: Apache-2.0 */
/* doc.c: tasks of all nodes change shared documents through src/doc.
 *
 * A document is a ledger: numbers in the order in which they were added, each with the nonce and
 * the instant of the attempt that added it. Numbers are never removed. The checker sees each write
 * that the store applied, and checks every result:
 *
 *   - Numbers are only appended to a ledger, and each number is added once.
 *   - An addition that was reported as done is there. An addition that was reported as not done, or
 *     refused, is not there and never will be. The same is true of an addition that got no reply,
 *     once a later write that settles it has been reported as done.
 *   - If an addition is refused because a number is there, that number was there. If it is refused
 *     because a number is missing, the refusal was not based on an outdated body, and neither is a
 *     ledger that a node reads. If it is refused because it is too late, it was too late.
 *   - The validity of an addition is counted from the instant of the attempt that made it. */
#include "doc/doc.h"
#include "base/check.h"
#include "base/parse.h"
#include "sim/run.h"

#include <inttypes.h>
#include <stdlib.h>

#define LEDGERS        2
#define TASKS_PER_NODE 3
#define LEDGER_BYTES   (16 * MIB)
#define CHAIN_MAX      3
#define CALM_DEADLINE  SPAN_S(900)
#define LOOK_TIME      SPAN_S(10)

#define LOOKS_IN_CALM_MAX 90

static const struct view keys[LEDGERS] = { { "ledger/a", 8 }, { "ledger/b", 8 } };

/* ---- What the checker knows ------------------------------------------------------------ */

struct addition {
    unsigned node;
    bool told; /* the outcome is certain, and is in `status` */
    enum hf_status status;
    bool shut_out; /* a later write that settles it was reported as done */
    bool landed;
    int64_t t0_us; /* as in the ledger */
};

struct ledgers {
    struct run *run;
    struct bucket_watch watch;
    bool stub;                  /* new documents start with a placeholder */
    struct addition *additions; /* numbered from 1 */
    uint64_t started;
    uint64_t room;
    uint64_t *numbers[LEDGERS]; /* in the order of the ledger */
    size_t counts[LEDGERS];
    uint64_t left[NODES_MAX + 1]; /* operations left for each node while faults occur */
    unsigned done_in_calm[NODES_MAX + 1];
};

/* ---- The document -------------------------------------------------------------------- */

struct entry {
    uint64_t number;
    int64_t t0_us;
    char nonce[NONCE_SIZE + 1];
};

struct ledger {
    size_t count;
    size_t room;
    struct entry *entries;
    bool stub; /* just created, and not prepared yet */
};

static bool ledger_append(struct ledger *ledger, const struct entry *entry)
{
    if (ledger->count == ledger->room) {
        size_t more = ledger->room > 0 ? 2 * ledger->room : 16;
        struct entry *entries = realloc(ledger->entries, more * sizeof *entries);
        if (!entries)
            return false;
        ledger->entries = entries;
        ledger->room = more;
    }
    ledger->entries[ledger->count++] = *entry;
    return true;
}

static void ledger_free(void *body)
{
    struct ledger *ledger = body;
    free(ledger->entries);
    free(ledger);
}

static bool entry_parse(struct view line, struct entry *ret_entry)
{
    struct view number = view_cut(&line, ' '), t0 = view_cut(&line, ' ');
    uint64_t t0_us = 0;
    if (parse_u64(number, UINT64_MAX, &ret_entry->number, NULL) != HF_OK ||
        parse_u64(t0, INT64_MAX, &t0_us, NULL) != HF_OK || line.size != NONCE_SIZE)
        return false;
    ret_entry->t0_us = (int64_t)t0_us;
    memcpy(ret_entry->nonce, line.data, NONCE_SIZE);
    ret_entry->nonce[NONCE_SIZE] = '\0';
    return true;
}

/* "WRITE\n", a nonce, then "NUMBER T0 NONCE\n" for each entry. */
static bool ledger_next(struct view *text, struct entry *ret_entry)
{
    return text->size > 0 && entry_parse(view_cut(text, '\n'), ret_entry);
}

static enum hf_status decode(struct view bytes, struct mono_time arrived, const void *previous,
                             void **ret_body, struct hf_error *error)
{
    (void)arrived;
    (void)previous;
    struct ledger *ledger = calloc(1, sizeof *ledger);
    struct entry entry;
    check(ledger && view_cut(&bytes, '\n').size == NONCE_SIZE);
    while (ledger_next(&bytes, &entry))
        check(ledger_append(ledger, &entry));
    if (bytes.size > 0) {
        ledger_free(ledger);
        return error_set(error, HF_CORRUPT, "this is no ledger");
    }
    *ret_body = ledger;
    return HF_OK;
}

static bool encode(const void *body, struct view nonce, struct buffer *text)
{
    const struct ledger *ledger = body;
    buffer_print(text, "%.*s\n", VIEW_ARGS(nonce));
    for (size_t i = 0; i < ledger->count; i++)
        buffer_print(text, "%" PRIu64 " %" PRId64 " %s\n", ledger->entries[i].number,
                     ledger->entries[i].t0_us, ledger->entries[i].nonce);
    return !text->failed;
}

struct client {
    struct ledgers *ledgers;
    struct node *node;
    struct env *env;
    struct store *store;
    struct doc_clock clock;
    struct doc *docs[LEDGERS];
};

/* Occasionally requires that the body be read again. */
static enum hf_status prepare(void *context, struct view key, void *body,
                              struct mono_time deadline, struct hf_error *error)
{
    struct client *client = context;
    struct ledger *ledger = body;
    (void)key;
    (void)deadline;
    if (env_random_below(client->env, 16) == 0)
        return error_set(error, HF_CONFLICT, "read it again");
    ledger->stub = false;
    return HF_OK;
}

static bool is_whole(const void *body)
{
    const struct ledger *ledger = body;
    return !ledger->stub;
}

static void *birth(void *context)
{
    struct client *client = context;
    struct ledger *ledger = calloc(1, sizeof *ledger);
    check(ledger);
    ledger->stub = client->ledgers->stub;
    return ledger;
}

static const struct doc_type ledger_type = {
    .bytes_max = LEDGER_BYTES,
    .decode = decode,
    .is_whole = is_whole,
    .prepare = prepare,
    .birth = birth,
    .encode = encode,
    .free = ledger_free,
};

/* ---- Operations ---------------------------------------------------------------------- */

enum kind {
    KIND_ADD,
    KIND_READ, /* changes nothing */
};

struct op {
    struct doc_op base;
    enum kind kind;
    uint64_t number;
    uint64_t unless;        /* HELD if this number is there; 0: never */
    uint64_t needs;         /* MISMATCH if there is no entry with this number; 0: no check */
    struct mono_time valid; /* EXPIRED after this instant; 0: never */
    size_t count;           /* the number of entries when it was applied */
    char nonce[NONCE_SIZE + 1]; /* of the entry */
};

static const struct entry *ledger_find(const struct ledger *ledger, uint64_t number)
{
    for (size_t i = 0; number > 0 && i < ledger->count; i++)
        if (ledger->entries[i].number == number)
            return &ledger->entries[i];
    return NULL;
}

static enum hf_status refuse(struct op *op, const struct ledger *ledger,
                             const struct evidence *evidence)
{
    struct hf_error *error = &op->base.error;
    if (op->unless > 0 && ledger_find(ledger, op->unless))
        return error_set(error, HF_HELD, "the other is there");
    if (op->needs > 0 && !ledger_find(ledger, op->needs))
        return error_set(error, HF_MISMATCH, "the other is missing");
    if (op->valid.us > 0 && mono_before(op->valid, evidence->now))
        return error_set(error, HF_EXPIRED, "too late");
    return HF_OK;
}

static enum hf_status apply(struct doc_op *base, void *body, const struct evidence *evidence)
{
    struct op *op = (struct op *)(void *)base;
    struct ledger *ledger = body;
    op->count = ledger->count;
    const struct entry *mine = ledger_find(ledger, op->number);
    if (mine) {
        memcpy(op->nonce, mine->nonce, sizeof op->nonce);
        return HF_OK;
    }
    enum hf_status status = refuse(op, ledger, evidence);
    if (status != HF_OK || op->kind == KIND_READ)
        return status;
    struct entry entry = { .number = op->number, .t0_us = evidence->now.us };
    memcpy(entry.nonce, evidence->nonce.data, NONCE_SIZE);
    memcpy(op->nonce, entry.nonce, sizeof op->nonce);
    check(ledger_append(ledger, &entry));
    base->changed = true;
    return HF_OK;
}

/* ---- Operations of a node ------------------------------------------------------------ */

static struct op op_new(struct client *client, enum kind kind)
{
    int64_t patience_us = (int64_t)env_random_below(client->env, 20 * 1000000);
    struct op op = { .kind = kind };
    op.base.apply = apply;
    op.base.deadline = mono_add(env_now(client->env), SPAN_US(patience_us + 1));
    return op;
}

static struct op addition_new(struct client *client)
{
    struct ledgers *ledgers = client->ledgers;
    if (ledgers->started == ledgers->room)
        world_fail(ledgers->run->world, "%" PRIu64 " additions did not suffice", ledgers->room);
    struct op op = op_new(client, KIND_ADD);
    op.number = ++ledgers->started;
    ledgers->additions[op.number] = (struct addition){ .node = node_number(client->node) };
    return op;
}

/* The validity of an addition is counted from the attempt that made it. */
static void checker_instant(struct ledgers *ledgers, const struct op *op)
{
    const struct addition *record = &ledgers->additions[op->number];
    const struct doc_attempt *attempt = doc_attempt_of(&op->base, view_of(op->nonce));
    bool remembered = op->base.attempt_count <= DOC_ATTEMPTS_MAX;
    if (remembered ? attempt->t0.us != record->t0_us : attempt->t0.us > record->t0_us)
        world_fail(ledgers->run->world,
                   "addition %" PRIu64 " of node %u counts from %" PRId64
                   ", but the attempt that made it was at %" PRId64,
                   op->number, record->node, attempt->t0.us, record->t0_us);
}

/* Called immediately after the result of an addition has been received. */
static void note_answer(struct ledgers *ledgers, const struct op *op)
{
    struct world *world = ledgers->run->world;
    struct addition *record = &ledgers->additions[op->number];
    enum hf_status status = op->base.error.status;
    record->status = status;
    record->told = status != HF_UNSURE;
    if (!record->told)
        return;
    if (record->landed != (status == HF_OK))
        world_fail(world, "node %u was told %s of addition %" PRIu64 ", which is %s",
                   record->node, hf_status_name(status), op->number,
                   record->landed ? "done" : "not done");
    if (status == HF_OK)
        checker_instant(ledgers, op);
    struct node *node = world_node(world, record->node - 1);
    if (status == HF_EXPIRED && mono_before(env_now(node_env(node)), op->valid))
        world_fail(world,
                   "node %u was told that it is too late for addition %" PRIu64
                   ", before it was",
                   record->node, op->number);
    if (status == HF_HELD && !ledgers->additions[op->unless].landed)
        world_fail(world,
                   "node %u was refused addition %" PRIu64 " because of %" PRIu64
                   ", which is not there",
                   record->node, op->number, op->unless);
}

/* Checks a ledger that a node has just read. The ledger had `asked` entries when the node sent its
 * request. */
static void checker_count(struct client *client, size_t which, size_t asked, size_t shown)
{
    size_t now = client->ledgers->counts[which];
    if (shown < asked || shown > now)
        world_fail(client->ledgers->run->world,
                   "node %u was shown %zu entries; there were %zu when it asked, now %zu",
                   node_number(client->node), shown, asked, now);
}

/* Settles an addition that got no reply: once another write is reported as done, the earlier write
 * can no longer take effect. */
static void settle(struct client *client, size_t which, const struct op *unsure)
{
    struct op op = op_new(client, KIND_READ);
    struct addition *record = &client->ledgers->additions[unsure->number];
    op.base.settle = true;
    if (doc_update(client->docs[which], &op.base) == HF_OK)
        record->shut_out = !record->landed;
}

static void after_update(struct client *client, size_t which, const struct op *op)
{
    note_answer(client->ledgers, op);
    if (op->base.error.status == HF_UNSURE && env_random_below(client->env, 2) == 0)
        settle(client, which, op);
}

static enum hf_status update(struct client *client, size_t which, struct op *op)
{
    enum hf_status status = doc_update(client->docs[which], &op->base);
    after_update(client, which, op);
    return status;
}

/* The last number that any node has begun to add. */
static uint64_t recent(const struct client *client)
{
    return client->ledgers->started;
}

static void do_add_unless(struct client *client, size_t which)
{
    uint64_t other = recent(client);
    struct op op = addition_new(client);
    op.unless = other;
    update(client, which, &op);
}

/* Adds a number that is refused from some instant on, so a retry may be refused although the first
 * attempt was not. */
static void do_add_in_time(struct client *client, size_t which)
{
    struct op op = addition_new(client);
    struct span valid = env_jitter(client->env, SPAN_MS(500));
    op.valid = mono_add(env_now(client->env), valid);
    update(client, which, &op);
}

static void do_add_after(struct client *client, size_t which)
{
    struct ledgers *ledgers = client->ledgers;
    struct op op = addition_new(client);
    size_t count = ledgers->counts[which];
    if (count > 0)
        op.needs = ledgers->numbers[which][count - 1];
    if (update(client, which, &op) == HF_MISMATCH)
        world_fail(ledgers->run->world,
                   "node %u was told that %" PRIu64 " is missing, which was there",
                   node_number(client->node), op.needs);
}

/* Adds several numbers together; each is refused if the previous one is there. */
static void do_chain(struct client *client, size_t which)
{
    struct op ops[CHAIN_MAX];
    struct doc_op *pointers[CHAIN_MAX];
    for (size_t i = 0; i < CHAIN_MAX; i++) {
        ops[i] = addition_new(client);
        ops[i].unless = i > 0 ? ops[i - 1].number : 0;
        pointers[i] = &ops[i].base;
    }
    doc_update_many(client->docs[which], pointers, CHAIN_MAX);
    for (size_t i = 0; i < CHAIN_MAX; i++)
        note_answer(client->ledgers, &ops[i]);
}

static void do_read(struct client *client, size_t which)
{
    size_t asked = client->ledgers->counts[which];
    struct op op = op_new(client, KIND_READ);
    if (doc_update(client->docs[which], &op.base) == HF_OK)
        checker_count(client, which, asked, op.count);
}

static void take_count(void *argument, const void *body, const struct evidence *evidence)
{
    (void)evidence;
    *(size_t *)argument = ((const struct ledger *)body)->count;
}

static enum hf_status do_look(struct client *client, size_t which, struct span patience)
{
    struct hf_error error;
    size_t asked = client->ledgers->counts[which], shown = 0;
    struct mono_time deadline = mono_add(env_now(client->env), patience);
    enum hf_status status = doc_look(client->docs[which], deadline, take_count, &shown, &error);
    if (status == HF_OK)
        checker_count(client, which, asked, shown);
    return status;
}

static void do_something(struct client *client)
{
    size_t which = (size_t)env_random_below(client->env, LEDGERS);
    uint64_t drawn = env_random_below(client->env, 20);
    if (drawn < 2)
        do_read(client, which);
    else if (drawn < 4)
        do_look(client, which, SPAN_S(10));
    else if (drawn < 7)
        do_add_unless(client, which);
    else if (drawn < 10)
        do_add_in_time(client, which);
    else if (drawn < 12)
        do_add_after(client, which);
    else if (drawn < 14)
        do_chain(client, which);
    else {
        struct op op = addition_new(client);
        update(client, which, &op);
    }
}

/* Pauses between batches. Operations that start together are written together, and the batches are
 * spread over the whole period of faults. */
static void pause_a_while(struct client *client)
{
    bool long_one = env_random_below(client->env, 4) == 0;
    env_sleep(client->env, env_jitter(client->env, long_one ? SPAN_S(90) : SPAN_MS(500)));
}

/* During the fault-free phase, an operation must succeed soon, unless it is waiting for replies
 * that were lost earlier. */
static bool work_in_calm(struct client *client)
{
    struct op op = addition_new(client);
    op.base.deadline = mono_add(env_now(client->env), CALM_DEADLINE);
    if (update(client, 0, &op) != HF_OK)
        return false;
    for (int i = 0; i < LOOKS_IN_CALM_MAX; i++) { /* a partition may last into this phase */
        enum hf_status status = do_look(client, 0, LOOK_TIME);
        if (status != HF_UNAVAILABLE && status != HF_TIMEOUT)
            return status == HF_OK;
    }
    return false;
}

static void work(void *argument)
{
    struct client *client = argument;
    struct ledgers *ledgers = client->ledgers;
    unsigned number = node_number(client->node);
    while (ledgers->left[number] > 0) {
        ledgers->left[number]--;
        run_count_operation(ledgers->run);
        do_something(client);
        pause_a_while(client);
    }
    if (world_now_us(ledgers->run->world) < ledgers->run->calm_us)
        env_sleep_until(client->env, node_moment(client->node, ledgers->run->calm_us));
    ledgers->done_in_calm[number] += work_in_calm(client);
}

/* Every body that a document passes to its observer must be, or have been, in the store. */
struct shown {
    struct client *client;
    size_t which;
};

static void seen(void *argument, const void *body, const struct evidence *evidence)
{
    (void)evidence;
    const struct shown *shown = argument;
    const struct ledger *ledger = body;
    const struct ledgers *ledgers = shown->client->ledgers;
    bool good = ledger->count <= ledgers->counts[shown->which];
    for (size_t i = 0; good && i < ledger->count; i++)
        good = ledger->entries[i].number == ledgers->numbers[shown->which][i];
    if (!good)
        world_fail(ledgers->run->world, "an observer was shown what was never in the store");
}

static void program(struct node *node, void *argument)
{
    struct ledgers *ledgers = argument;
    struct client client = { .ledgers = ledgers,
                             .node = node,
                             .env = node_env(node),
                             .store = net_store_open(ledgers->run->net, node) };
    struct shown shown[LEDGERS];
    struct env_task *tasks[TASKS_PER_NODE];
    struct hf_error error;
    check(client.store);
    ledgers->done_in_calm[node_number(node)] = 0;
    clock_init(&client.clock, client.store);
    for (size_t i = 0; i < LEDGERS; i++) {
        shown[i] = (struct shown){ &client, i };
        check(doc_new(client.store, &client.clock, keys[i], &ledger_type, &client,
                      &client.docs[i], &error) == HF_OK);
        doc_observe(client.docs[i], seen, &shown[i]);
    }
    for (size_t i = 0; i < TASKS_PER_NODE; i++)
        check(env_task_start(client.env, work, &client, &tasks[i], &error) == HF_OK);
    for (size_t i = 0; i < TASKS_PER_NODE; i++)
        env_task_join(client.env, tasks[i]);
    for (size_t i = 0; i < LEDGERS; i++)
        doc_free(client.docs[i]);
    clock_release(&client.clock);
    store_close(client.store);
}

/* ---- The checker ----------------------------------------------------------------------- */

static void land(struct ledgers *ledgers, size_t which, const struct entry *entry)
{
    struct world *world = ledgers->run->world;
    if (entry->number < 1 || entry->number > ledgers->started) {
        world_fail(world, "addition %" PRIu64 " took effect and was never begun",
                   entry->number);
        return;
    }
    struct addition *record = &ledgers->additions[entry->number];
    if (record->landed)
        world_fail(world, "addition %" PRIu64 " of node %u took effect twice", entry->number,
                   record->node);
    if (record->told)
        world_fail(world, "addition %" PRIu64 " took effect after node %u was told %s",
                   entry->number, record->node, hf_status_name(record->status));
    if (record->shut_out)
        world_fail(world,
                   "addition %" PRIu64 " of node %u took effect after it had been shut out",
                   entry->number, record->node);
    record->landed = true;
    record->t0_us = entry->t0_us;
    ledgers->numbers[which][ledgers->counts[which]++] = entry->number;
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct ledgers *ledgers = argument;
    size_t which = view_equal(change->key, keys[0]) ? 0 : 1;
    struct view text = change->body;
    struct entry entry;
    size_t known = ledgers->counts[which], at = 0;
    bool good = text.data && view_cut(&text, '\n').size == NONCE_SIZE;
    for (; good && ledger_next(&text, &entry); at++) {
        if (at >= known)
            land(ledgers, which, &entry);
        else
            good = entry.number == ledgers->numbers[which][at];
    }
    if (!good || at < known || text.size > 0)
        world_fail(ledgers->run->world, "a write took away what was in a ledger");
}

static void checker(struct run *run, void *state)
{
    const struct ledgers *ledgers = state;
    for (unsigned i = 1; i <= run->options->nodes; i++)
        if (ledgers->done_in_calm[i] != TASKS_PER_NODE)
            world_fail(run->world, "node %u could not add after the faults had stopped", i);
}

/* ---- Creation ------------------------------------------------------------------------ */

static void *start(struct run *run)
{
    struct ledgers *ledgers = calloc(1, sizeof *ledgers);
    check(ledgers);
    unsigned nodes = run->options->nodes;
    struct prng prng = world_stream(run->world, STREAM_WORKLOAD);
    ledgers->run = run;
    ledgers->stub = prng_below(&prng, 2) == 0;
    /* A round may be a chain, and crashes may cut the last rounds of each node short any number of
     * times. */
    ledgers->room =
        CHAIN_MAX * (uint64_t)run->options->operations + 64 * TASKS_PER_NODE * (uint64_t)nodes;
    ledgers->additions = calloc(ledgers->room + 1, sizeof *ledgers->additions);
    check(ledgers->additions);
    for (size_t i = 0; i < LEDGERS; i++) {
        ledgers->numbers[i] = calloc(ledgers->room, sizeof(uint64_t));
        check(ledgers->numbers[i]);
    }
    ledgers->watch = (struct bucket_watch){ .changed = changed, .argument = ledgers };
    bucket_add_watch(net_bucket(run->net), &ledgers->watch);
    for (unsigned i = 0; i < run->options->operations; i++)
        ledgers->left[1 + i % nodes]++;
    for (unsigned i = 0; i < nodes; i++)
        node_boot(world_node(run->world, i), program, ledgers);
    return ledgers;
}

static void free_state(void *state)
{
    struct ledgers *ledgers = state;
    for (size_t i = 0; i < LEDGERS; i++)
        free(ledgers->numbers[i]);
    free(ledgers->additions);
    free(ledgers);
}

/* A store with its own lock, which changes a document in one step. */
static void tune_steps(struct run *run, struct plans *plans)
{
    plans->net.bucket.clock = STORE_CLOCK_BOOT;
    plans->net.bucket.steps = !run->options->ignore_conditions;
}

const struct workload workload_steps = {
    .name = "steps",
    .about = "the same on a store with its own lock, which changes a document in one step",
    .tune = tune_steps,
    .start = start,
    .check_at_end = checker,
    .free = free_state,
};

const struct workload workload_doc = {
    .name = "doc",
    .about = "tasks of all nodes change shared documents; what each is told is so",
    .start = start,
    .check_at_end = checker,
    .free = free_state,
};
