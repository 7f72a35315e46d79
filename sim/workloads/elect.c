/* SPDX-License-Identifier: Apache-2.0 */
/* elect.c: nodes add entries to a shared document, join a roster, and compact what is due in ladder
 * order, through src/elect and src/doc. elect_checker.c checks that:
 *
 *   - the counts of the cascade always follow from the history;
 *   - the instant at which work became due does not change until the work is done;
 *   - every member that counts as present has sent a recent heartbeat, and no such member is
 *     missed;
 *   - the same members and the same document produce the same order, even with equal scores;
 *   - no member starts before its turn, counted from when the work became due, and none waits when
 *     the document says that its turn has come;
 *   - during the fault-free phase, no member starts work that is already done, and due work starts
 *     within a bounded number of steps, even if members have disappeared. */
#include "base/check.h"
#include "base/hash.h"
#include "doc/doc.h"
#include "sim/workloads/elect_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DOCUMENT_MAX   (256 * KIB)
#define PATIENCE       SPAN_S(10)
#define CALM_TURNS_MAX 5000

/* Allows for a partition or suspension that lasts into the fault-free phase, and for all other
 * delays. */
#define CALM_SLACK SPAN_S(90)

struct election {
    struct run *run;
    struct elect_plan plan;
    struct elect_checker_state checker;
    struct bucket_watch watch;
    uint64_t ids;                  /* the last id given to an event */
    uint64_t left[NODES_MAX + 1];  /* entries that each node adds before the fault-free phase */
    bool deserts[NODES_MAX + 1];   /* disappears without leaving the roster when faults end */
    bool calm_done[NODES_MAX + 1]; /* has added another entry during the fault-free phase */
    bool finished[NODES_MAX + 1];
};

struct client {
    struct election *election;
    struct node *node;
    struct env *env;
    struct store *store;
    struct doc_clock clock;
    struct doc *doc;
    struct roster roster;
    struct elect_body view;   /* the document, as last read */
    uint64_t seen_generation; /* of the work that was seen to be due ... */
    struct mono_time seen;    /* ... since then; 0: none */
    int64_t due_in_calm_us;   /* since when work has been due without a failure; 0: none */
    bool ending;
};

/* ---- The document -------------------------------------------------------------------- */

static enum hf_status decode(struct view bytes, struct mono_time arrived, const void *previous,
                             void **ret_body, struct hf_error *error)
{
    (void)arrived;
    (void)previous;
    struct elect_body *body = malloc(sizeof *body);
    check(body);
    if (!elect_parse(bytes, body)) {
        free(body);
        return error_set(error, HF_CORRUPT, "this is no state");
    }
    *ret_body = body;
    return HF_OK;
}

static bool encode(const void *data, struct view nonce, struct buffer *text)
{
    const struct elect_body *body = data;
    buffer_print(text, "%.*s\ncounts", VIEW_ARGS(nonce));
    for (size_t i = 1; i < CASCADE_LEVELS_MAX; i++)
        buffer_print(text, " %" PRIu64, body->cascade.counts[i]);
    buffer_append(text, VIEW("\ndue"));
    if (body->due.set)
        buffer_print(text, " %" PRIu64 " %" PRId64 " %" PRId64, body->due.clock, body->due.us,
                     body->due.true_us);
    buffer_append(text, VIEW("\n"));
    for (size_t i = 0; i < body->count; i++) {
        const struct elect_event *event = &body->events[i];
        buffer_print(text, "%c %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                     event->kind == ELECT_ADDED ? 'a' : 'c', event->id, event->node,
                     event->value);
    }
    return !text->failed;
}

static void *birth(void *context)
{
    (void)context;
    struct elect_body *body = malloc(sizeof *body);
    check(body);
    elect_copy(body, &(struct elect_body){ .count = 0 });
    return body;
}

static const struct doc_type type = {
    .bytes_max = DOCUMENT_MAX,
    .decode = decode,
    .birth = birth,
    .encode = encode,
    .free = free,
};

/* ---- Changing the document ----------------------------------------------------------- */

struct op {
    struct doc_op base;
    struct election *election;
    struct elect_event event;
    uint64_t generation; /* of a completion */
};

static struct elect_due due_now(const struct op *op, const struct evidence *evidence)
{
    return (struct elect_due){ .set = true,
                               .clock = evidence->time_known ? hash_xxh3(evidence->clock) : 0,
                               .us = evidence->time_known ? evidence->latest.us : 0,
                               .true_us = world_now_us(op->election->run->world) };
}

static enum hf_status apply(struct doc_op *base, void *data, const struct evidence *evidence)
{
    struct op *op = (struct op *)(void *)base;
    struct elect_body *body = data;
    bool completes = op->event.kind == ELECT_COMPLETED;
    for (size_t i = 0; i < body->count; i++)
        if (body->events[i].id == op->event.id)
            return HF_OK;
    if (completes && elect_generation(body) != op->generation)
        return error_set(&base->error, HF_MISMATCH, "somebody else has done it");
    check(body->count < ELECT_EVENTS_MAX);
    if (completes)
        cascade_completed(&body->cascade, (unsigned)op->event.value);
    else
        cascade_added(&body->cascade, op->event.value);
    body->events[body->count++] = op->event;
    unsigned target = cascade_target(&body->cascade, op->election->plan.base);
    if (target == 0)
        body->due = (struct elect_due){ 0 };
    else if (completes || !body->due.set)
        body->due = due_now(op, evidence);
    base->changed = true;
    return HF_OK;
}

static enum hf_status change(struct client *client, enum elect_kind kind, uint64_t value,
                             uint64_t generation)
{
    struct election *election = client->election;
    struct op op = { .election = election, .generation = generation };
    op.event = (struct elect_event){ kind, ++election->ids, node_number(client->node), value };
    op.base.apply = apply;
    op.base.deadline = mono_add(env_now(client->env), PATIENCE);
    return doc_update(client->doc, &op.base);
}

static void take_view(void *argument, const void *body, const struct evidence *evidence)
{
    (void)evidence;
    elect_copy(argument, body);
}

/* A missing document counts as empty. */
static bool look(struct client *client, struct elect_body *ret_view)
{
    struct hf_error error;
    struct mono_time deadline = mono_add(env_now(client->env), PATIENCE);
    enum hf_status status = doc_look(client->doc, deadline, take_view, ret_view, &error);
    if (status == HF_NOT_FOUND)
        elect_copy(ret_view, &(struct elect_body){ .count = 0 });
    return status == HF_OK || status == HF_NOT_FOUND;
}

/* ---- Whose turn it is ---------------------------------------------------------------- */

static unsigned target_of(const struct client *client, const struct elect_body *body)
{
    return cascade_target(&body->cascade, client->election->plan.base);
}

struct names {
    char text[NODES_MAX][16];
    struct work_writer writers[NODES_MAX];
};

static struct work work_of(const struct client *client, struct names *names)
{
    size_t count = client->election->run->options->nodes;
    for (size_t i = 0; i < count; i++) {
        snprintf(names->text[i], sizeof names->text[i], "node-%zu", i + 1);
        names->writers[i] = (struct work_writer){ view_of(names->text[i]),
                                                  elect_sequence(&client->view, i + 1) };
    }
    return (struct work){ target_of(client, &client->view), client->election->plan.base,
                          names->writers, count };
}

/* Scores of 64 bits are never equal, so some seeds use only their last bits. */
static size_t rank_of(const struct client *client)
{
    struct names names;
    struct work work = work_of(client, &names);
    const struct roster *roster = &client->roster;
    struct view own = view_of(roster->fingerprint);
    uint64_t mask = client->election->plan.score_mask;
    if (mask == UINT64_MAX)
        return ladder_rank(roster->present, roster->present_count, own, &work);
    struct rung mine = { ladder_score(own, &work) & mask, own };
    size_t rank = 0;
    for (size_t i = 0; i < roster->present_count; i++) {
        struct view name = roster->present[i];
        struct rung other = { ladder_score(name, &work) & mask, name };
        rank += !view_equal(name, own) && ladder_before(&other, &mine);
    }
    return rank;
}

/* The earliest possible store time, if the due stamp comes from that clock. */
static int64_t earliest_of(struct client *client)
{
    struct evidence evidence = { 0 };
    clock_evidence(&client->clock, &evidence);
    bool readable = evidence.time_known && client->view.due.clock == hash_xxh3(evidence.clock);
    return readable ? evidence.earliest.us : INT64_MIN;
}

/* Whether the node may start; if not, sets how long it must wait. */
static bool is_our_turn(struct client *client, struct span *ret_wait)
{
    struct span step = client->election->plan.step;
    int64_t earliest_us = earliest_of(client);
    size_t rank = rank_of(client);
    bool readable = earliest_us != INT64_MIN;
    struct span since_due = SPAN_US(readable ? earliest_us - client->view.due.us : 0);
    struct span since_seen = mono_since(env_now(client->env), client->seen);
    struct span age = ladder_age(since_due, since_seen);
    bool waits = !ladder_may_start(rank, step, age);
    elect_checker_turn(&client->election->checker,
                       &(struct elect_turn){ .node = node_number(client->node),
                                             .body = &client->view,
                                             .roster = &client->roster,
                                             .rank = rank,
                                             .earliest_us = earliest_us,
                                             .waits = waits });
    if (waits)
        *ret_wait = SPAN_US(ladder_delay(rank, step).us - age.us);
    return !waits;
}

/* ---- Operations of a node ------------------------------------------------------------ */

static bool is_calm(const struct client *client)
{
    return world_now_us(client->election->run->world) >= client->election->run->calm_us;
}

static void keep_roster(struct client *client)
{
    struct elect_asked asked;
    struct hf_error error;
    struct mono_time now = env_now(client->env);
    elect_checker_asks(&client->election->checker, &asked);
    roster_keep(&client->roster, now, &error);
    if (client->roster.listed.us == now.us)
        elect_checker_told(&client->election->checker, &asked, node_number(client->node),
                           &client->roster);
}

/* Some members keep the same name in all incarnations; others use a new name in each. */
static bool join(struct client *client)
{
    struct elect_asked asked;
    struct hf_error error;
    char name[16] = "";
    if (node_number(client->node) % 2 == 0)
        snprintf(name, sizeof name, "n%u", node_number(client->node));
    elect_checker_asks(&client->election->checker, &asked);
    struct roster_options join = { ELECT_GROUP, view_of(name), VIEW("a node"),
                                   client->election->plan.beat };
    enum hf_status status = roster_join(&client->roster, client->store, &join, &error);
    if (status == HF_OK)
        elect_checker_told(&client->election->checker, &asked, node_number(client->node),
                           &client->roster);
    return status == HF_OK;
}

/* During the fault-free phase, due work must be started, regardless of which member's turn it
 * was. */
static void checker_waiting(struct client *client, bool failed)
{
    const struct election *election = client->election;
    struct world *world = election->run->world;
    int64_t now_us = world_now_us(world);
    bool anew = failed || !is_calm(client) || !client->view.due.set ||
                client->seen_generation != elect_generation(&client->view) ||
                node_runs_since_us(client->node) > client->due_in_calm_us;
    if (anew || client->due_in_calm_us == 0)
        client->due_in_calm_us = now_us;
    int64_t bound_us =
        (int64_t)client->roster.present_count * election->plan.step.us + CALM_SLACK.us;
    if (now_us - client->due_in_calm_us > bound_us)
        world_fail(world, "work %" PRIu64 " has been due for %" PRId64 " s, and is not done",
                   client->seen_generation, (now_us - client->due_in_calm_us) / 1000000);
}

/* The work itself takes a while; the guard is checked just before it. */
static void do_work(struct client *client)
{
    struct election *election = client->election;
    uint64_t generation = elect_generation(&client->view);
    unsigned level = target_of(client, &client->view);
    struct span queue = env_jitter(client->env, election->plan.queue_max);
    struct span takes = env_jitter(client->env, election->plan.work_max);
    env_sleep(client->env, queue);
    bool still_due = look(client, &client->view) &&
                     elect_generation(&client->view) == generation &&
                     target_of(client, &client->view) == level;
    if (!ladder_guard(still_due))
        return;
    run_count_operation(election->run);
    elect_checker_start(&election->checker, node_number(client->node), generation);
    env_sleep(client->env, takes);
    enum hf_status status = change(client, ELECT_COMPLETED, level, generation);
    if (status != HF_OK && status != HF_MISMATCH)
        checker_waiting(client, /* failed */ true);
}

/* Uses the view from the last read until the next one. */
static void consider(struct client *client)
{
    struct span poll = env_jitter(client->env, client->election->plan.poll);
    struct span wait = SPAN_US(0);
    uint64_t generation = elect_generation(&client->view);
    if (client->seen.us == 0 || client->seen_generation != generation)
        client->seen = env_now(client->env);
    client->seen_generation = generation;
    if (!is_our_turn(client, &wait)) {
        env_sleep(client->env, span_smaller(wait, poll));
        if (wait.us > poll.us || !is_our_turn(client, &wait))
            return;
    }
    do_work(client);
}

static void add_entries(struct client *client)
{
    struct election *election = client->election;
    unsigned number = node_number(client->node);
    uint64_t most = election->plan.base + election->plan.base / 2;
    uint64_t count = 1 + env_random_below(client->env, most);
    bool calm = is_calm(client);
    if (calm)
        count = most;
    else
        election->left[number]--;
    run_count_operation(election->run);
    enum hf_status status = change(client, ELECT_ADDED, count, 0);
    if (calm && status == HF_OK)
        election->calm_done[number] = true;
}

static bool wants_to_add(struct client *client)
{
    const struct election *election = client->election;
    unsigned number = node_number(client->node);
    if (is_calm(client))
        return !election->calm_done[number] && !election->deserts[number];
    return env_random_below(client->env, 3) == 0 && election->left[number] > 0;
}

static void take_turn(struct client *client)
{
    const struct election *election = client->election;
    keep_roster(client);
    if (wants_to_add(client))
        add_entries(client);
    bool seen = look(client, &client->view);
    bool due = seen && target_of(client, &client->view) > 0;
    checker_waiting(client, !seen);
    if (due) {
        consider(client);
        return;
    }
    if (seen)
        client->seen.us = 0;
    client->ending = seen && is_calm(client) && election->calm_done[node_number(client->node)];
    if (!client->ending)
        env_sleep(client->env, env_jitter(client->env, election->plan.poll));
}

static void work(struct client *client)
{
    struct election *election = client->election;
    unsigned number = node_number(client->node);
    unsigned calm_turns = 0;
    while (!client->ending) {
        calm_turns += is_calm(client);
        if (calm_turns > CALM_TURNS_MAX)
            world_fail(election->run->world, "node %u does not come to an end", number);
        take_turn(client);
        client->ending |= is_calm(client) && election->deserts[number];
    }
    election->finished[number] = true;
}

static void program(struct node *node, void *argument)
{
    struct election *election = argument;
    struct hf_error error;
    unsigned number = node_number(node);
    struct client *client = calloc(1, sizeof *client);
    check(client);
    client->election = election;
    client->node = node;
    client->env = node_env(node);
    client->store = net_store_open(election->run->net, node);
    check(client->store);
    clock_init(&client->clock, client->store);
    check(doc_new(client->store, &client->clock, ELECT_KEY, &type, client, &client->doc,
                  &error) == HF_OK);
    while (!join(client))
        env_sleep(client->env, election->plan.poll);
    work(client);
    bool in_order = env_random_below(client->env, 2) == 0;
    if (in_order && !election->deserts[number])
        roster_leave(&client->roster);
    else
        roster_release(&client->roster);
    doc_free(client->doc);
    clock_release(&client->clock);
    store_close(client->store);
    free(client);
}

/* ---- Creation ------------------------------------------------------------------------ */

/* The plan is drawn in a fixed order from one sequence, because it is drawn twice. */
static struct elect_plan plan_draw(const struct world *world)
{
    static const uint64_t bases[] = { 2, 3, 3, 5 };
    static const uint64_t masks[] = { 0, 1, 3, UINT64_MAX, UINT64_MAX, UINT64_MAX };
    struct prng prng = world_stream(world, STREAM_WORKLOAD);
    struct elect_plan plan = { 0 };
    plan.base = bases[prng_below(&prng, 4)];
    plan.score_mask = masks[prng_below(&prng, 6)];
    plan.step = SPAN_S(4 + prng_below(&prng, 20));
    plan.beat = SPAN_S(3 + prng_below(&prng, 8));
    plan.poll = SPAN_S(3 + prng_below(&prng, 8));
    plan.queue_max = SPAN_S(1 + prng_below(&prng, 6));
    plan.work_max = SPAN_S(1 + prng_below(&prng, 4));
    plan.honest = prng_below(&prng, 5) > 0;
    return plan;
}

/* Properties that depend on clocks are checked only if the store's clock does not jump and
 * its dates are correct. In some seeds this is not the case. */
static void tune(struct run *run, struct plans *plans)
{
    struct elect_plan plan = plan_draw(run->world);
    if (!plan.honest)
        return;
    plans->chaos.weight[CHAOS_STORE_STEP] = 0;
    plans->net.plan.lying_date_chance = 0;
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct election *election = argument;
    elect_checker_write(&election->checker, change);
}

/* A member that stays sees work that became due when it added entries, but not work that became due
 * when another member added entries later and then disappeared. */
static bool is_left_by_deserter(const struct election *election)
{
    const struct elect_body *known = &election->checker.known;
    return known->count > 0 && election->deserts[known->events[known->count - 1].node];
}

static void checker(struct run *run, void *state)
{
    const struct election *election = state;
    for (unsigned i = 1; i <= run->options->nodes; i++)
        if (!election->finished[i])
            world_fail(run->world, "node %u did not come to its end", i);
    if (elect_model_target(&election->checker.known, election->plan.base) > 0 &&
        !is_left_by_deserter(election))
        world_fail(run->world, "work is left that is due, and nobody to do it");
}

static void *start(struct run *run)
{
    struct election *election = calloc(1, sizeof *election);
    check(election);
    unsigned nodes = run->options->nodes;
    struct prng prng = world_stream(run->world, STREAM_WORKLOAD + 1);
    election->run = run;
    election->plan = plan_draw(run->world);
    election->plan.skew_max = SPAN_S(1); /* the most that run.c draws */
    election->checker.run = run;
    election->checker.plan = &election->plan;
    for (unsigned i = 0; i < run->options->operations; i++)
        election->left[1 + i % nodes]++;
    for (unsigned i = 2; i <= nodes; i++) /* the first one stays */
        election->deserts[i] = prng_below(&prng, 4) == 0;
    election->watch = (struct bucket_watch){ .changed = changed, .argument = election };
    bucket_add_watch(net_bucket(run->net), &election->watch);
    for (unsigned i = 0; i < nodes; i++)
        node_boot(world_node(run->world, i), program, election);
    return election;
}

const struct workload workload_elect = {
    .name = "elect",
    .about = "nodes compact what is due by the ladder: in turn, and after the faults never "
             "needlessly",
    .tune = tune,
    .start = start,
    .check_at_end = checker,
    .free = free,
};
