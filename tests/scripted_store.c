/* SPDX-License-Identifier: Apache-2.0 */
/* scripted_store.c: a store that passes calls on, except where the rules of a test say
 * otherwise. */
#include "scripted_store.h"

#include "base/check.h"

#include <stdlib.h>

#define SLOW_TIME SPAN_MS(250)

struct late_put {
    struct late_put *next;
    struct condition condition;
    size_t key_size, body_size;
    char space[]; /* key, then body */
};

static struct script *script_of(struct store *store)
{
    return (struct script *)(void *)store;
}

/* ---- Rules --------------------------------------------------------------------------- */

static void remove_rule_locked(struct script *script, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < script->shared.rule_count; i++) {
        const struct rule *rule = &script->shared.rules[i];
        if (!name || !rule->name || strcmp(rule->name, name) != 0)
            script->shared.rules[kept++] = *rule;
    }
    script->shared.rule_count = kept;
}

void script_add(struct script *script, struct rule rule)
{
    env_mutex_lock(&script->shared.mutex);
    remove_rule_locked(script, rule.name);
    check(script->shared.rule_count < SCRIPT_RULES_MAX);
    script->shared.rules[script->shared.rule_count++] = rule;
    env_mutex_unlock(&script->shared.mutex);
}

void script_drop(struct script *script, const char *name)
{
    env_mutex_lock(&script->shared.mutex);
    remove_rule_locked(script, name);
    script->shared.drops++;
    env_cond_broadcast(&script->shared.dropped);
    env_mutex_unlock(&script->shared.mutex);
}

/* How many of the calls that it has seen a rule applied to. */
static unsigned times_met(const struct rule *rule)
{
    unsigned met = rule->seen > rule->skip ? rule->seen - rule->skip : 0;
    return rule->times > 0 && met > rule->times ? rule->times : met;
}

unsigned script_met(struct script *script, const char *name)
{
    unsigned met = 0;
    env_mutex_lock(&script->shared.mutex);
    for (size_t i = 0; i < script->shared.rule_count; i++) {
        const struct rule *rule = &script->shared.rules[i];
        if (rule->name && strcmp(rule->name, name) == 0)
            met = times_met(rule);
    }
    env_mutex_unlock(&script->shared.mutex);
    return met;
}

static bool contains(struct view text, struct view part)
{
    for (; text.size >= part.size; text = view_from(text, 1))
        if (view_starts_with(text, part))
            return true;
    return false;
}

static bool matches(const struct rule *rule, const struct script_call *call)
{
    unsigned kinds = rule->on & ~ON_FIRST;
    return (kinds == 0 || kinds & ON_KIND(call->kind)) &&
           (call->first || !(rule->on & ON_FIRST)) &&
           (!rule->key || view_equal(call->key, view_of(rule->key))) &&
           (!rule->part || contains(call->key, view_of(rule->part)));
}

/* ---- What a call meets --------------------------------------------------------------- */

struct meeting {
    struct rule rules[SCRIPT_RULES_MAX]; /* that apply */
    size_t count;
    struct fate fate;
    uint64_t drops; /* so far */
};

static void count_locked(struct counts *counts, const struct script_call *call)
{
    switch (call->kind) {
    case CALL_GET: ++*(call->get->none_match.size > 0 ? &counts->looks : &counts->gets); break;
    case CALL_PUT: counts->puts++; break;
    case CALL_CHANGE: break; /* when it is known what it did */
    default: counts->others++; break;
    }
    counts->deletes += call->kind == CALL_DELETE;
}

static void find_rules(struct script *script, const struct script_call *call,
                       struct meeting *meeting)
{
    meeting->count = 0;
    env_mutex_lock(&script->shared.mutex);
    count_locked(&script->shared.counts, call);
    meeting->drops = script->shared.drops;
    for (size_t i = 0; i < script->shared.rule_count; i++) {
        struct rule *rule = &script->shared.rules[i];
        unsigned before = times_met(rule);
        if (!matches(rule, call))
            continue;
        rule->seen++;
        if (times_met(rule) > before)
            meeting->rules[meeting->count++] = *rule;
    }
    env_mutex_unlock(&script->shared.mutex);
}

static struct fate fate_by(const struct rule *rule, struct script_call *call)
{
    if (rule->decide)
        return rule->decide(rule->argument, call);
    unsigned number = times_met(rule) - 1;
    if (number < FATES_MAX && rule->fates[number].kind != FATE_PASS)
        return rule->fates[number];
    return rule->fate;
}

static void hang(struct script *script, uint64_t drops, struct mono_time deadline)
{
    if (deadline.us == 0)
        deadline = mono_add(env_now(script->base.env), SPAN_MS(STORE_TIMEOUT_MS));
    env_mutex_lock(&script->shared.mutex);
    while (script->shared.drops == drops &&
           env_cond_wait_until(&script->shared.dropped, &script->shared.mutex, deadline))
        ;
    env_mutex_unlock(&script->shared.mutex);
}

/* Finds the rules of a call, calls the hooks that come before it, and lets it take its time. */
static void meet(struct script *script, struct script_call *call, struct meeting *meeting)
{
    find_rules(script, call, meeting);
    meeting->fate = PASS;
    for (size_t i = 0; i < meeting->count; i++) {
        const struct rule *rule = &meeting->rules[i];
        if (rule->before)
            rule->before(rule->argument);
        struct fate fate = fate_by(rule, call);
        if (fate.kind != FATE_PASS)
            meeting->fate = fate;
    }
    if (meeting->fate.kind == FATE_HANG)
        hang(script, meeting->drops, call->deadline);
    if (meeting->fate.kind == FATE_SLOW)
        env_sleep(script->base.env, SLOW_TIME);
}

/* Whether nothing is to be done about a call but to pass it on. */
static bool just_passes(const struct meeting *meeting)
{
    for (size_t i = 0; i < meeting->count; i++)
        if (meeting->rules[i].reply || meeting->rules[i].after)
            return false;
    return meeting->fate.kind == FATE_PASS || meeting->fate.kind == FATE_SLOW;
}

/* ---- Late puts ----------------------------------------------------------------------- */

/* Without memory it is lost instead. */
static void keep_late(struct script *script, struct view key, struct view body,
                      const struct condition *condition)
{
    struct late_put *late = malloc(sizeof *late + key.size + body.size);
    if (!late)
        return;
    *late = (struct late_put){ .condition = *condition,
                               .key_size = key.size,
                               .body_size = body.size };
    memcpy(late->space, key.data, key.size);
    if (body.size > 0)
        memcpy(late->space + key.size, body.data, body.size);
    env_mutex_lock(&script->shared.mutex);
    struct late_put **end = &script->shared.late;
    while (*end)
        end = &(*end)->next;
    *end = late;
    env_mutex_unlock(&script->shared.mutex);
}

static struct late_put *take_late(struct script *script)
{
    env_mutex_lock(&script->shared.mutex);
    struct late_put *late = script->shared.late;
    if (late)
        script->shared.late = late->next;
    env_mutex_unlock(&script->shared.mutex);
    return late;
}

size_t script_late(struct script *script)
{
    size_t count = 0;
    env_mutex_lock(&script->shared.mutex);
    for (const struct late_put *late = script->shared.late; late; late = late->next)
        count++;
    env_mutex_unlock(&script->shared.mutex);
    return count;
}

void script_deliver(struct script *script)
{
    struct late_put *late;
    while ((late = take_late(script))) {
        struct put_call put = { .key = { late->space, late->key_size },
                                .body = { late->space + late->key_size, late->body_size },
                                .condition = late->condition };
        store_put(script->inner, &put);
        free(late);
    }
}

/* ---- Changes in one step ------------------------------------------------------------- */

struct step {
    const struct change_call *asked;
    enum fate_kind fate;
    bool read;
    struct etag now;
    struct view decided;
};

static struct view decide_step(void *argument, const struct etag *now, struct view body)
{
    struct step *step = argument;
    const struct change_call *asked = step->asked;
    step->read = step->read || body.data || now->size == 0;
    step->now = *now;
    if (step->fate == FATE_AGAIN)
        asked->decide(asked->argument, now, body);
    step->decided = asked->decide(asked->argument, now, body);
    bool writes = step->fate != FATE_LATE && step->fate != FATE_DECIDED;
    return writes ? step->decided : (struct view){ NULL, 0 };
}

/* For a store that has no such call. */
static void change_by_get_and_put(struct store *inner, struct change_call *call)
{
    struct buffer body = BUFFER_INIT(BODY_BYTES_MAX);
    struct get_call get = { .key = call->key, .body = &body, .none_match = call->known };
    struct put_call put = { .key = call->key };
    inner->ops->get(inner, &get, 1);
    call->error = get.error;
    enum hf_status found = get.error.status;
    if (found == HF_OK || found == HF_NOT_MODIFIED || found == HF_NOT_FOUND) {
        error_clear(&call->error);
        if (found != HF_NOT_FOUND)
            call->etag = found == HF_OK ? get.info.etag : call->known;
        put.condition = found == HF_NOT_FOUND ? if_absent() : if_match(&call->etag);
        put.body = call->decide(call->argument, &call->etag,
                                found == HF_OK ? buffer_view(&body) : (struct view){ NULL, 0 });
    }
    if (call->error.status == HF_OK && put.body.data) {
        inner->ops->put(inner, &put, 1);
        call->error = put.error;
        call->wrote = put.error.status == HF_OK;
        call->etag = put.etag;
    }
    buffer_release(&body);
}

static void forward_change(struct script *script, struct change_call *call, enum fate_kind fate)
{
    struct change_call asked = *call;
    struct step step = { .asked = &asked, .fate = fate };
    struct counts *counts = &script->shared.counts;
    call->decide = decide_step; /* not in a copy: what is decided may set its other members */
    call->argument = &step;
    call->ready = (struct view){ NULL, 0 }; /* so that it is always decided here */
    if (script->inner->ops->change)
        script->inner->ops->change(script->inner, call, 1, /* together */ true);
    else
        change_by_get_and_put(script->inner, call);
    call->decide = asked.decide;
    call->argument = asked.argument;
    if (fate == FATE_LATE && step.decided.data) {
        struct condition condition = step.now.size > 0 ? if_match(&step.now) : if_absent();
        keep_late(script, call->key, step.decided, &condition);
    }
    env_mutex_lock(&script->shared.mutex);
    counts->gets += step.read;
    counts->puts += call->wrote;
    counts->looks += call->error.status == HF_OK && !step.read && !call->wrote;
    env_mutex_unlock(&script->shared.mutex);
}

/* ---- Passing calls on ---------------------------------------------------------------- */

static void forward(struct script *script, const struct script_call *call, size_t count)
{
    struct store *inner = script->inner;
    switch (call->kind) {
    case CALL_GET: inner->ops->get(inner, call->get, count); break;
    case CALL_PUT: inner->ops->put(inner, call->put, count); break;
    case CALL_DELETE: inner->ops->remove(inner, call->removal, count); break;
    case CALL_LIST: inner->ops->list(inner, call->list); break;
    case CALL_GET_FILE:
        if (call->ret_fd)
            inner->ops->lend_file(inner, call->get, call->ret_fd);
        else
            inner->ops->get_file(inner, call->get, call->fd, call->progress);
        break;
    case CALL_PUT_FILE: inner->ops->put_file(inner, call->put, call->fd, call->progress); break;
    default: check_unreachable();
    }
}

static void count_conflicts(struct script *script, const struct script_call *call, size_t count)
{
    if (call->kind != CALL_PUT)
        return;
    env_mutex_lock(&script->shared.mutex);
    for (size_t i = 0; i < count; i++)
        script->shared.counts.conflicts += call->put[i].error.status == HF_CONFLICT;
    env_mutex_unlock(&script->shared.mutex);
}

/* Whether a call of this fate gets as far as the store. */
static bool reaches(enum fate_kind fate, unsigned kind)
{
    switch (fate) {
    case FATE_PASS:
    case FATE_SLOW:
    case FATE_TWICE:
    case FATE_AGAIN: return true;
    case FATE_LOSE_REPLY: return ON_KIND(kind) & (ON_PUT | ON_DELETE | ON_PUT_FILE | ON_CHANGE);
    case FATE_LATE:
    case FATE_DECIDED: return kind == CALL_CHANGE;
    case FATE_REFUSE:
    case FATE_LOSE:
    case FATE_HANG:
    case FATE_ANSWERED: return false;
    }
    check_unreachable();
}

static void answer(const struct script_call *call, struct fate fate)
{
    bool is_read = ON_KIND(call->kind) & (ON_GET | ON_LIST | ON_GET_FILE);
    enum hf_status status = fate.status;
    if (is_read && status == HF_UNSURE)
        status = HF_UNAVAILABLE;
    if (status != HF_OK)
        error_set(call->error, status, "by the script");
}

static void make_call(struct script *script, struct script_call *call,
                      const struct meeting *meeting)
{
    enum fate_kind fate = meeting->fate.kind;
    if (fate == FATE_LATE && call->kind == CALL_PUT)
        keep_late(script, call->put->key, call->put->body, &call->put->condition);
    if (reaches(fate, call->kind) && call->kind == CALL_CHANGE)
        forward_change(script, call->change, fate);
    else if (reaches(fate, call->kind))
        forward(script, call, 1);
    if (fate == FATE_TWICE && call->kind == CALL_PUT && call->error->status == HF_OK)
        forward(script, call, 1);
    answer(call, meeting->fate);
    for (size_t i = 0; i < meeting->count; i++) {
        const struct rule *rule = &meeting->rules[i];
        if (rule->reply)
            rule->reply(rule->argument, call);
        if (rule->after)
            rule->after(rule->argument);
    }
    count_conflicts(script, call, 1);
}

static void run_one(struct store *store, struct script_call call)
{
    struct meeting meeting;
    call.first = true;
    meet(script_of(store), &call, &meeting);
    make_call(script_of(store), &call, &meeting);
}

/* ---- The calls ----------------------------------------------------------------------- */

static struct script_call call_of(unsigned kind, void *at)
{
    struct script_call call = { .kind = kind };
    if (kind == CALL_GET) {
        call.get = at;
        call.key = call.get->key;
        call.deadline = call.get->deadline;
        call.error = &call.get->error;
    } else if (kind == CALL_PUT) {
        call.put = at;
        call.key = call.put->key;
        call.deadline = call.put->deadline;
        call.error = &call.put->error;
    } else {
        call.removal = at;
        call.key = call.removal->key;
        call.deadline = call.removal->deadline;
        call.error = &call.removal->error;
    }
    return call;
}

/* Passes on `count` calls of a batch, the first of which is at `at`. */
static void run_some(struct script *script, unsigned kind, void *at, size_t count)
{
    if (count == 0) /* then `at` may be behind the end */
        return;
    struct script_call calls = call_of(kind, at);
    forward(script, &calls, count);
    count_conflicts(script, &calls, count);
}

static void run_batch(struct store *store, unsigned kind, void *calls, size_t size,
                      size_t count)
{
    struct script *script = script_of(store);
    char *waiting = calls, *at = calls; /* those in between are passed on together */
    for (size_t i = 0; i < count; i++, at += size) {
        struct meeting meeting;
        struct script_call call = call_of(kind, at);
        call.first = i == 0;
        meet(script, &call, &meeting);
        if (just_passes(&meeting))
            continue;
        run_some(script, kind, waiting, (size_t)(at - waiting) / size);
        waiting = at + size;
        make_call(script, &call, &meeting);
    }
    run_some(script, kind, waiting, (size_t)(at - waiting) / size);
}

static void script_get(struct store *store, struct get_call *calls, size_t count)
{
    run_batch(store, CALL_GET, calls, sizeof *calls, count);
}

static void script_put(struct store *store, struct put_call *calls, size_t count)
{
    run_batch(store, CALL_PUT, calls, sizeof *calls, count);
}

static void script_remove(struct store *store, struct delete_call *calls, size_t count)
{
    run_batch(store, CALL_DELETE, calls, sizeof *calls, count);
}

static void script_list(struct store *store, struct list_call *call)
{
    run_one(store, (struct script_call){ .kind = CALL_LIST,
                                         .key = call->prefix,
                                         .deadline = call->deadline,
                                         .error = &call->error,
                                         .list = call });
}

static void script_get_file(struct store *store, struct get_call *call, int fd,
                            const struct progress *progress)
{
    struct script_call one = call_of(CALL_GET, call);
    one.kind = CALL_GET_FILE;
    one.fd = fd;
    one.progress = progress;
    run_one(store, one);
}

static void script_lend_file(struct store *store, struct get_call *call, int *ret_fd)
{
    struct script_call one = call_of(CALL_GET, call);
    one.kind = CALL_GET_FILE;
    one.ret_fd = ret_fd;
    run_one(store, one);
}

static void script_put_file(struct store *store, struct put_call *call, int fd,
                            const struct progress *progress)
{
    struct script_call one = call_of(CALL_PUT, call);
    one.kind = CALL_PUT_FILE;
    one.fd = fd;
    one.progress = progress;
    run_one(store, one);
}

static struct script_call call_of_change(struct change_call *call)
{
    return (struct script_call){ .kind = CALL_CHANGE,
                                 .key = call->key,
                                 .deadline = call->deadline,
                                 .error = &call->error,
                                 .change = call };
}

/* Several objects in one step have one fate: the first that a rule gives to one of them. A step is
 * not kept for later: LATE and DECIDED are like LOSE and REFUSE. */
static void run_together(struct script *script, struct change_call *calls, size_t count)
{
    struct meeting *meetings = calloc(count, sizeof *meetings);
    struct fate fate = PASS;
    check(meetings);
    for (size_t i = 0; i < count; i++) {
        struct script_call call = call_of_change(&calls[i]);
        call.first = i == 0;
        meet(script, &call, &meetings[i]);
        if (fate.kind == FATE_PASS)
            fate = meetings[i].fate;
    }
    bool kept = fate.kind == FATE_LATE || fate.kind == FATE_DECIDED;
    if (reaches(fate.kind, CALL_CHANGE) && !kept)
        store_change_together(script->inner, calls, count);
    for (size_t i = 0; i < count; i++) {
        struct script_call call = call_of_change(&calls[i]);
        env_mutex_lock(&script->shared.mutex);
        script->shared.counts.puts += calls[i].wrote;
        env_mutex_unlock(&script->shared.mutex);
        answer(&call, fate);
        for (size_t j = 0; j < meetings[i].count; j++) {
            const struct rule *rule = &meetings[i].rules[j];
            if (rule->reply)
                rule->reply(rule->argument, &call);
            if (rule->after)
                rule->after(rule->argument);
        }
    }
    free(meetings);
}

static void script_change(struct store *store, struct change_call *calls, size_t count,
                          bool together)
{
    if (count > 1 && together) {
        run_together(script_of(store), calls, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        run_one(store, call_of_change(&calls[i]));
}

static void script_inspect(struct store *store, struct mono_time deadline,
                           struct probe_report *report)
{
    struct store *inner = script_of(store)->inner;
    inner->ops->inspect(inner, deadline, report);
}

static void script_learn(struct store *store, const struct store_traits *traits)
{
    struct store *inner = script_of(store)->inner;
    inner->ops->learn(inner, traits);
}

static bool script_identify(struct store *store, struct buffer *text)
{
    return store_identify(script_of(store)->inner, text);
}

static bool script_listens(const struct store *store)
{
    return store_listens(((const struct script *)(const void *)store)->inner);
}

static bool script_listen(struct store *store, uint64_t *ticket, struct mono_time until)
{
    return store_listen(script_of(store)->inner, ticket, until);
}

static void script_ring(struct store *store)
{
    store_ring(script_of(store)->inner);
}

static void script_close(struct store *store)
{
    struct script *script = script_of(store);
    script_reset(script);
    env_cond_release(&script->shared.dropped);
    env_mutex_release(&script->shared.mutex);
    if (script->owns_inner)
        store_close(script->inner);
}

/* ---- Making it ----------------------------------------------------------------------- */

void script_init(struct script *script, struct store *inner)
{
    const struct store_ops *can = inner->ops;
    *script = (struct script){
        .base = { .ops = &script->ops,
                  .env = inner->env,
                  .inner = inner,
                  .traits = inner->traits },
        .inner = inner,
        .ops = { .name = "script",
                 .get = script_get,
                 .put = script_put,
                 .remove = script_remove,
                 .list = script_list,
                 .get_file = script_get_file,
                 .put_file = script_put_file,
                 .lend_file = can->lend_file ? script_lend_file : NULL,
                 .inspect = can->inspect ? script_inspect : NULL,
                 .learn = can->learn ? script_learn : NULL,
                 .identify = script_identify,
                 .change = can->change ? script_change : NULL,
                 .listens = script_listens,
                 .listen = script_listen,
                 .ring = script_ring,
                 .close = script_close },
    };
    script->base.traits.conflict_final = false; /* a rule may send a put twice */
    env_mutex_init(inner->env, &script->shared.mutex);
    env_cond_init(inner->env, &script->shared.dropped);
}

void script_take_steps(struct script *script)
{
    script->ops.change = script_change;
}

void script_reset(struct script *script)
{
    struct late_put *late;
    while ((late = take_late(script)))
        free(late);
    env_mutex_lock(&script->shared.mutex);
    script->shared.rule_count = 0;
    script->shared.counts = (struct counts){ 0 };
    script->shared.drops++;
    env_cond_broadcast(&script->shared.dropped);
    env_mutex_unlock(&script->shared.mutex);
}

struct counts script_counts(struct script *script)
{
    env_mutex_lock(&script->shared.mutex);
    struct counts counts = script->shared.counts;
    script->shared.counts = (struct counts){ 0 };
    env_mutex_unlock(&script->shared.mutex);
    return counts;
}
