/* SPDX-License-Identifier: Apache-2.0 */
/* elect_checker.c: the checker of workload `elect`. It follows the document and the roster
 * as the store applied them, computes the cascade and the ranks with its own code, and compares the
 * results with what the nodes did. It uses no code from src/elect; docs/design.md section 7 is its
 * specification. */
#include "base/check.h"
#include "base/hash.h"
#include "base/layout.h"
#include "base/parse.h"
#include "sim/workloads/elect_state.h"

#include <inttypes.h>
#include <stdio.h>

/* Modification times are in whole seconds. */
#define GRAIN SPAN_S(2)

/* During the fault-free phase, a node that starts work must have read that the work is due within
 * this time. */
#define LOOK_AGE_MAX SPAN_S(2)

/* A request that was sent before the fault-free phase may take this long. */
#define CALM_SETTLES SPAN_S(30)

/* ---- The document -------------------------------------------------------------------- */

static bool take_number(struct view *rest, uint64_t max, uint64_t *ret_number)
{
    return parse_u64(view_cut(rest, ' '), max, ret_number, NULL) == HF_OK;
}

static bool parse_counts(struct view line, struct hf_cascade *cascade)
{
    bool good = view_equal(view_cut(&line, ' '), VIEW("counts"));
    for (size_t i = 1; i < CASCADE_LEVELS_MAX; i++)
        good = good && take_number(&line, UINT64_MAX, &cascade->counts[i]);
    return good && line.size == 0;
}

static bool parse_due(struct view line, struct elect_due *due)
{
    uint64_t us = 0, true_us = 0;
    if (!view_equal(view_cut(&line, ' '), VIEW("due")))
        return false;
    due->set = line.size > 0;
    if (!due->set)
        return true;
    bool good = take_number(&line, UINT64_MAX, &due->clock);
    good =
        good && take_number(&line, INT64_MAX, &us) && take_number(&line, INT64_MAX, &true_us);
    due->us = (int64_t)us;
    due->true_us = (int64_t)true_us;
    return good && line.size == 0;
}

static bool parse_event(struct view line, struct elect_event *event)
{
    struct view kind = view_cut(&line, ' ');
    event->kind = view_equal(kind, VIEW("a")) ? ELECT_ADDED : ELECT_COMPLETED;
    return take_number(&line, UINT64_MAX, &event->id) &&
           take_number(&line, NODES_MAX, &event->node) &&
           take_number(&line, UINT64_MAX, &event->value) && line.size == 0;
}

bool elect_parse(struct view text, struct elect_body *ret_body)
{
    ret_body->cascade = (struct hf_cascade){ 0 };
    ret_body->due = (struct elect_due){ 0 };
    ret_body->count = 0;
    bool good = view_cut(&text, '\n').size == NONCE_SIZE;
    good = good && parse_counts(view_cut(&text, '\n'), &ret_body->cascade);
    good = good && parse_due(view_cut(&text, '\n'), &ret_body->due);
    while (good && text.size > 0 && ret_body->count < ELECT_EVENTS_MAX)
        good = parse_event(view_cut(&text, '\n'), &ret_body->events[ret_body->count++]);
    return good && text.size == 0;
}

void elect_copy(struct elect_body *to, const struct elect_body *from)
{
    to->cascade = from->cascade;
    to->due = from->due;
    to->count = from->count;
    memcpy(to->events, from->events, from->count * sizeof *from->events);
}

uint64_t elect_generation(const struct elect_body *body)
{
    uint64_t generation = 0;
    for (size_t i = 0; i < body->count; i++)
        generation += body->events[i].kind == ELECT_COMPLETED;
    return generation;
}

uint64_t elect_sequence(const struct elect_body *body, uint64_t node)
{
    uint64_t sequence = 0;
    for (size_t i = 0; i < body->count; i++)
        sequence += body->events[i].kind == ELECT_ADDED && body->events[i].node == node;
    return sequence;
}

/* ---- The cascade, counted from its history ------------------------------------------- */

uint64_t elect_model_count(const struct elect_body *body, unsigned level)
{
    uint64_t count = 0;
    for (size_t i = body->count; i > 0; i--) {
        const struct elect_event *event = &body->events[i - 1];
        if (event->kind == ELECT_COMPLETED && event->value >= level)
            return count;
        if (event->kind == ELECT_ADDED)
            count += level == 1 ? event->value : 0;
        else
            count += event->value + 1 == level;
    }
    return count;
}

static bool model_is_due(const struct elect_body *body, unsigned level, uint64_t base)
{
    bool below = level > 1 && model_is_due(body, level - 1, base);
    return level >= 1 && elect_model_count(body, level) + below >= base;
}

unsigned elect_model_target(const struct elect_body *body, uint64_t base)
{
    for (unsigned level = CASCADE_LEVELS_MAX - 1; level > 0; level--)
        if (model_is_due(body, level, base))
            return level;
    return 0;
}

static void checker_counts(const struct elect_checker_state *checker,
                           const struct elect_body *body)
{
    for (unsigned level = 1; level < CASCADE_LEVELS_MAX; level++) {
        uint64_t expected = elect_model_count(body, level);
        if (body->cascade.counts[level] != expected)
            world_fail(checker->run->world,
                       "the count of level %u is %" PRIu64 ", but by what happened %" PRIu64,
                       level, body->cascade.counts[level], expected);
    }
}

/* The instant at which work became due must not change until the work is done. */
static void checker_due(const struct elect_checker_state *checker,
                        const struct elect_body *body)
{
    const struct elect_body *known = &checker->known;
    unsigned before = elect_model_target(known, checker->plan->base);
    unsigned now = elect_model_target(body, checker->plan->base);
    bool same = known->due.set == body->due.set && known->due.us == body->due.us &&
                known->due.clock == body->due.clock;
    if (body->due.set != (now > 0))
        world_fail(checker->run->world, "work is due, and no moment said, or the reverse");
    if (before > 0 && elect_generation(known) == elect_generation(body) && !same)
        world_fail(checker->run->world, "a write moved the moment at which work became due");
}

static void checker_document(struct elect_checker_state *checker, struct view text)
{
    struct world *world = checker->run->world;
    struct elect_body *body = &checker->written;
    const struct elect_body *known = &checker->known;
    if (!text.data || !elect_parse(text, body)) {
        world_fail(world, "a write left something that is no state");
        return;
    }
    bool kept = body->count >= known->count;
    for (size_t i = 0; kept && i < known->count; i++)
        kept = body->events[i].id == known->events[i].id;
    if (!kept)
        world_fail(world, "a write took away what had happened");
    checker_counts(checker, body);
    checker_due(checker, body);
    for (uint64_t i = elect_generation(known); i < elect_generation(body); i++)
        checker->completed_us[i] = world_now_us(world);
    elect_copy(&checker->known, body);
}

/* ---- The roster ---------------------------------------------------------------------- */

static struct elect_member *find_member(struct elect_checker_state *checker, struct view name)
{
    for (size_t i = 0; i < checker->member_count; i++)
        if (view_equal(view_of(checker->members[i].name), name))
            return &checker->members[i];
    check(checker->member_count < ELECT_MEMBERS_MAX && name.size <= FINGERPRINT_MAX);
    struct elect_member *member = &checker->members[checker->member_count++];
    memcpy(member->name, name.data, name.size);
    return member;
}

static void note_member(struct elect_checker_state *checker, struct view name, bool there)
{
    struct elect_member *member = find_member(checker, name);
    int64_t now_us = world_now_us(checker->run->world);
    if (there && !member->there)
        member->since_us = now_us;
    member->there = there;
    member->written_us = now_us;
}

void elect_checker_write(struct elect_checker_state *checker,
                         const struct bucket_change *change)
{
    const struct view folder = VIEW(LAYOUT_ROSTER_FOLDER "crew/");
    if (view_starts_with(change->key, folder))
        note_member(checker, view_from(change->key, folder.size), change->body.data != NULL);
    else if (view_equal(change->key, ELECT_KEY)) {
        if (change->condition && !bucket_change_in_order(change, &checker->version))
            world_fail(checker->run->world,
                       "the document is written over one that was not seen");
        checker_document(checker, change->body);
    } else
        world_fail(checker->run->world, "a write went where nobody should write");
}

void elect_checker_asks(const struct elect_checker_state *checker,
                        struct elect_asked *ret_asked)
{
    ret_asked->at_us = world_now_us(checker->run->world);
    ret_asked->member_count = checker->member_count;
    for (size_t i = 0; i < checker->member_count; i++)
        ret_asked->written_us[i] =
            checker->members[i].there ? checker->members[i].written_us : INT64_MIN;
}

/* Whether the member's object has existed ever since the request. */
static bool stayed(const struct elect_checker_state *checker, const struct elect_asked *asked,
                   size_t which)
{
    const struct elect_member *member = &checker->members[which];
    return which < asked->member_count && asked->written_us[which] != INT64_MIN &&
           member->there && member->since_us <= asked->at_us;
}

static bool is_present(const struct roster *roster, struct view name)
{
    for (size_t i = 0; i < roster->present_count; i++)
        if (view_equal(roster->present[i], name))
            return true;
    return false;
}

/* The newest object that the listing must have contained, and the newest that it may have
 * contained. */
struct newest {
    int64_t least_us, most_us;
};

static struct newest newest_of(const struct elect_checker_state *checker,
                               const struct elect_asked *asked)
{
    struct newest newest = { INT64_MIN, INT64_MIN };
    for (size_t i = 0; i < checker->member_count; i++) {
        if (stayed(checker, asked, i) && asked->written_us[i] > newest.least_us)
            newest.least_us = asked->written_us[i];
        if (checker->members[i].written_us > newest.most_us)
            newest.most_us = checker->members[i].written_us;
    }
    return newest;
}

void elect_checker_told(const struct elect_checker_state *checker,
                        const struct elect_asked *asked, unsigned node,
                        const struct roster *roster)
{
    if (!checker->plan->honest)
        return;
    struct newest newest = newest_of(checker, asked);
    int64_t window_us = ROSTER_BEATS_MISSED * checker->plan->beat.us;
    for (size_t i = 0; i < checker->member_count; i++) {
        const struct elect_member *member = &checker->members[i];
        struct view name = view_of(member->name);
        if (view_equal(name, view_of(roster->fingerprint)))
            continue;
        bool present = is_present(roster, name);
        if (present && newest.least_us != INT64_MIN &&
            newest.least_us - member->written_us > window_us + GRAIN.us)
            world_fail(checker->run->world,
                       "node %u takes %s for present, which has been silent for %" PRId64 " s",
                       node, member->name, (newest.least_us - member->written_us) / 1000000);
        if (!present && stayed(checker, asked, i) &&
            newest.most_us - asked->written_us[i] < window_us - GRAIN.us)
            world_fail(checker->run->world, "node %u overlooks %s, which is there", node,
                       member->name);
    }
}

/* ---- Turns --------------------------------------------------------------------------- */

static void append_number(struct buffer *bytes, uint64_t number)
{
    for (int i = 0; i < 8; i++, number /= 256)
        buffer_append_byte(bytes, (char)(unsigned char)(number % 256));
}

/* The suffix of every member's object name. */
static void append_work(const struct elect_checker_state *checker,
                        const struct elect_body *body, struct buffer *bytes)
{
    append_number(bytes, elect_model_target(body, checker->plan->base));
    for (uint64_t node = 1; node <= checker->run->options->nodes; node++) {
        buffer_print(bytes, "node-%" PRIu64, node);
        append_number(bytes, elect_sequence(body, node) / checker->plan->base);
    }
}

static uint64_t model_score(const struct elect_checker_state *checker, struct view name,
                            struct view work)
{
    struct buffer bytes = BUFFER_INIT(4096);
    buffer_append(&bytes, name);
    buffer_append(&bytes, work);
    check(!bytes.failed);
    uint64_t score = hash_xxh3(buffer_view(&bytes)) & checker->plan->score_mask;
    buffer_release(&bytes);
    return score;
}

static size_t model_rank(const struct elect_checker_state *checker,
                         const struct elect_turn *turn)
{
    struct buffer work = BUFFER_INIT(4096);
    append_work(checker, turn->body, &work);
    check(!work.failed);
    struct view own = view_of(turn->roster->fingerprint);
    uint64_t own_score = model_score(checker, own, buffer_view(&work));
    size_t rank = 0;
    for (size_t i = 0; i < turn->roster->present_count; i++) {
        struct view name = turn->roster->present[i];
        uint64_t score = model_score(checker, name, buffer_view(&work));
        rank += score > own_score || (score == own_score && view_compare(name, own) < 0);
    }
    buffer_release(&work);
    return rank;
}

void elect_checker_turn(const struct elect_checker_state *checker,
                        const struct elect_turn *turn)
{
    struct world *world = checker->run->world;
    const struct elect_due *due = &turn->body->due;
    size_t rank = model_rank(checker, turn);
    if (turn->rank != rank)
        world_fail(world, "node %u takes itself for number %zu of %zu, and is number %zu",
                   turn->node, turn->rank, turn->roster->present_count, rank);
    int64_t delay_us = (int64_t)rank * checker->plan->step.us;
    if (turn->waits && turn->earliest_us != INT64_MIN &&
        turn->earliest_us - due->us >= delay_us)
        world_fail(world, "node %u waits, though by the document its turn has come",
                   turn->node);
    int64_t age_us = world_now_us(world) - due->true_us;
    int64_t doubt_us = 2 * checker->plan->skew_max.us + age_us / 1000 + 10000;
    if (!turn->waits && checker->plan->honest && age_us + doubt_us < delay_us)
        world_fail(world,
                   "node %u, number %zu, starts %" PRId64
                   " ms after the work became due, not %" PRId64 " ms",
                   turn->node, rank, age_us / 1000, delay_us / 1000);
}

void elect_checker_start(const struct elect_checker_state *checker, unsigned node,
                         uint64_t generation)
{
    struct world *world = checker->run->world;
    int64_t now_us = world_now_us(world);
    if (now_us < checker->run->calm_us + CALM_SETTLES.us ||
        elect_generation(&checker->known) <= generation)
        return;
    int64_t done_us = checker->completed_us[generation];
    if (node_runs_since_us(world_node(world, node - 1)) < done_us &&
        now_us - done_us > LOOK_AGE_MAX.us)
        world_fail(world, "node %u starts work %" PRIu64 ", which was done %" PRId64 " ms ago",
                   node, generation, (now_us - done_us) / 1000);
}
