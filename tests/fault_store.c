/* SPDX-License-Identifier: Apache-2.0 */
/* fault_store.c: a store that injects faults by a seeded plan, and always returns a true
 * status. */
#include "fault_store.h"

#include "base/check.h"
#include "base/prng.h"

#include <stdlib.h>

/* What becomes of one call. */
enum fate { FATE_GOOD, FATE_THROTTLED, FATE_REFUSED, FATE_LOST, FATE_REPLY_LOST, FATE_LATE };

/* A write that the caller has given up on and that happens all the same. */
struct late_write {
    bool is_delete;
    struct mono_time due;
    struct condition condition;
    size_t key_size;
    size_t body_size;
    char space[]; /* key, then body */
};

struct fault_store {
    struct store base;
    struct fault_plan plan;
    struct env_task *postman;
    struct {
        struct env_mutex mutex; /* guards what stands beside it */
        struct env_cond changed;
        struct prng prng;
        struct late_write *late[FAULT_LATE_MAX];
        size_t late_count;
        bool delivering; /* the postman has one in hand */
        bool calm;
        bool closing;
    } shared;
};

static struct fault_store *fault_of(struct store *store)
{
    return (struct fault_store *)(void *)store;
}

/* ---- Drawing fates ------------------------------------------------------------------- */

static enum fate draw_locked(struct fault_store *fault, bool is_write)
{
    const struct {
        uint32_t chance;
        enum fate fate;
    } rows[] = {
        { fault->plan.throttle, FATE_THROTTLED },
        { fault->plan.refuse, FATE_REFUSED },
        { is_write ? fault->plan.lose : 0, FATE_LOST },
        { is_write ? fault->plan.lose_reply : 0, FATE_REPLY_LOST },
        { is_write ? fault->plan.late : 0, FATE_LATE },
    };
    uint64_t drawn = prng_below(&fault->shared.prng, 1000000);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (drawn < rows[i].chance)
            return rows[i].fate;
        drawn -= rows[i].chance;
    }
    return FATE_GOOD;
}

/* Draws what becomes of the next call, and lets it take its time. */
static enum fate meet_fate(struct fault_store *fault, bool is_write)
{
    struct span delay = { 0 };
    env_mutex_lock(&fault->shared.mutex);
    enum fate fate = FATE_GOOD;
    if (!fault->shared.calm) {
        fate = draw_locked(fault, is_write);
        if (prng_chance(&fault->shared.prng, fault->plan.delay))
            delay = SPAN_US(
                prng_below(&fault->shared.prng, (uint64_t)fault->plan.delay_max.us + 1));
    }
    env_mutex_unlock(&fault->shared.mutex);
    if (delay.us > 0 && fate != FATE_THROTTLED)
        env_sleep(fault->base.env, delay);
    return fate;
}

/* True when the fate lets the call through to the store; else answers it. */
static bool passes(enum fate fate, struct hf_error *error)
{
    switch (fate) {
    case FATE_GOOD:
    case FATE_REPLY_LOST: return true;
    case FATE_THROTTLED: error_set(error, HF_UNAVAILABLE, "slow down (by plan)"); return false;
    case FATE_REFUSED: error_set(error, HF_UNAVAILABLE, "refused (by plan)"); return false;
    case FATE_LOST:
    case FATE_LATE: error_set(error, HF_UNSURE, "no answer (by plan)"); return false;
    }
    check_unreachable();
}

static void forget_reply(enum fate fate, struct hf_error *error)
{
    if (fate == FATE_REPLY_LOST)
        error_set(error, HF_UNSURE, "no answer (by plan)");
}

/* ---- Late writes --------------------------------------------------------------------- */

static struct late_write *late_new(struct view key, struct view body,
                                   const struct condition *condition)
{
    struct late_write *late = malloc(sizeof *late + key.size + body.size);
    if (!late)
        return NULL;
    *late = (struct late_write){ .condition = *condition,
                                 .key_size = key.size,
                                 .body_size = body.size };
    memcpy(late->space, key.data, key.size);
    if (body.size)
        memcpy(late->space + key.size, body.data, body.size);
    return late;
}

/* Takes `late` over. Without room for it the write is lost, which looks the same to the caller.
 */
static void post_late(struct fault_store *fault, struct late_write *late)
{
    if (!late)
        return;
    struct mono_time now = env_now(fault->base.env);
    env_mutex_lock(&fault->shared.mutex);
    uint64_t within = (uint64_t)fault->plan.late_max.us + 1;
    late->due = mono_add(now, SPAN_US(prng_below(&fault->shared.prng, within)));
    if (fault->shared.late_count < FAULT_LATE_MAX)
        fault->shared.late[fault->shared.late_count++] = late;
    else
        free(late);
    env_cond_broadcast(&fault->shared.changed);
    env_mutex_unlock(&fault->shared.mutex);
}

static void deliver(struct fault_store *fault, struct late_write *late)
{
    struct view key = { late->space, late->key_size };
    struct view body = { late->space + late->key_size, late->body_size };
    struct put_call put = { .key = key, .body = body, .condition = late->condition };
    struct delete_call removal = { .key = key, .condition = late->condition };
    if (late->is_delete)
        fault->base.inner->ops->remove(fault->base.inner, &removal, 1);
    else
        fault->base.inner->ops->put(fault->base.inner, &put, 1);
    free(late);
}

/* The index of the write that is due first. */
static size_t first_due_locked(const struct fault_store *fault)
{
    size_t first = 0;
    for (size_t i = 1; i < fault->shared.late_count; i++)
        if (mono_before(fault->shared.late[i]->due, fault->shared.late[first]->due))
            first = i;
    return first;
}

/* Waits until a late write is due and takes it out; NULL when closing. */
static struct late_write *next_late_locked(struct fault_store *fault)
{
    while (!fault->shared.closing) {
        if (fault->shared.late_count == 0) {
            env_cond_wait(&fault->shared.changed, &fault->shared.mutex);
            continue;
        }
        size_t first = first_due_locked(fault);
        struct late_write *late = fault->shared.late[first];
        bool due = !mono_before(env_now(fault->base.env), late->due);
        if (due || fault->shared.calm) {
            fault->shared.late[first] = fault->shared.late[--fault->shared.late_count];
            return late;
        }
        env_cond_wait_until(&fault->shared.changed, &fault->shared.mutex, late->due);
    }
    return NULL;
}

static void postman(void *argument)
{
    struct fault_store *fault = argument;
    struct late_write *late;
    env_mutex_lock(&fault->shared.mutex);
    while ((late = next_late_locked(fault))) {
        fault->shared.delivering = true;
        env_mutex_unlock(&fault->shared.mutex);
        deliver(fault, late);
        env_mutex_lock(&fault->shared.mutex);
        fault->shared.delivering = false;
        env_cond_broadcast(&fault->shared.changed);
    }
    env_mutex_unlock(&fault->shared.mutex);
}

void store_fault_calm(struct store *store)
{
    struct fault_store *fault = fault_of(store);
    env_mutex_lock(&fault->shared.mutex);
    fault->shared.calm = true;
    env_cond_broadcast(&fault->shared.changed);
    while (fault->shared.late_count > 0 || fault->shared.delivering)
        env_cond_wait(&fault->shared.changed, &fault->shared.mutex);
    env_mutex_unlock(&fault->shared.mutex);
}

/* ---- The calls ----------------------------------------------------------------------- */

static void fault_get(struct store *store, struct get_call *calls, size_t count)
{
    struct fault_store *fault = fault_of(store);
    for (size_t i = 0; i < count; i++)
        if (passes(meet_fate(fault, /* is_write */ false), &calls[i].error))
            fault->base.inner->ops->get(fault->base.inner, &calls[i], 1);
}

static void fault_put(struct store *store, struct put_call *calls, size_t count)
{
    struct fault_store *fault = fault_of(store);
    for (size_t i = 0; i < count; i++) {
        enum fate fate = meet_fate(fault, /* is_write */ true);
        if (passes(fate, &calls[i].error)) {
            fault->base.inner->ops->put(fault->base.inner, &calls[i], 1);
            forget_reply(fate, &calls[i].error);
        } else if (fate == FATE_LATE) {
            post_late(fault, late_new(calls[i].key, calls[i].body, &calls[i].condition));
        }
    }
}

static void fault_remove(struct store *store, struct delete_call *calls, size_t count)
{
    struct fault_store *fault = fault_of(store);
    for (size_t i = 0; i < count; i++) {
        enum fate fate = meet_fate(fault, /* is_write */ true);
        if (passes(fate, &calls[i].error)) {
            fault->base.inner->ops->remove(fault->base.inner, &calls[i], 1);
            forget_reply(fate, &calls[i].error);
        } else if (fate == FATE_LATE) {
            struct late_write *late = late_new(calls[i].key, VIEW(""), &calls[i].condition);
            if (late)
                late->is_delete = true;
            post_late(fault, late);
        }
    }
}

static void fault_list(struct store *store, struct list_call *call)
{
    struct fault_store *fault = fault_of(store);
    if (passes(meet_fate(fault, /* is_write */ false), &call->error))
        fault->base.inner->ops->list(fault->base.inner, call);
}

static void fault_get_file(struct store *store, struct get_call *call, int fd,
                           const struct progress *progress)
{
    struct fault_store *fault = fault_of(store);
    if (passes(meet_fate(fault, /* is_write */ false), &call->error))
        fault->base.inner->ops->get_file(fault->base.inner, call, fd, progress);
}

static void fault_lend_file(struct store *store, struct get_call *call, int *ret_fd)
{
    struct fault_store *fault = fault_of(store);
    if (!fault->base.inner->ops->lend_file ||
        passes(meet_fate(fault, /* is_write */ false), &call->error))
        store_lend_file(fault->base.inner, call, ret_fd);
}

/* A stream that is lost is not late: its file belongs to the caller. */
static void fault_put_file(struct store *store, struct put_call *call, int fd,
                           const struct progress *progress)
{
    struct fault_store *fault = fault_of(store);
    enum fate fate = meet_fate(fault, /* is_write */ true);
    if (passes(fate, &call->error)) {
        fault->base.inner->ops->put_file(fault->base.inner, call, fd, progress);
        forget_reply(fate, &call->error);
    }
}

static void fault_close(struct store *store)
{
    struct fault_store *fault = fault_of(store);
    env_mutex_lock(&fault->shared.mutex);
    fault->shared.closing = true;
    env_cond_broadcast(&fault->shared.changed);
    env_mutex_unlock(&fault->shared.mutex);
    env_task_join(store->env, fault->postman);
    for (size_t i = 0; i < fault->shared.late_count; i++)
        free(fault->shared.late[i]);
    env_cond_release(&fault->shared.changed);
    env_mutex_release(&fault->shared.mutex);
    store_close(fault->base.inner);
    free(fault);
}

static const struct store_ops fault_ops = {
    .name = "fault",
    .get = fault_get,
    .put = fault_put,
    .remove = fault_remove,
    .list = fault_list,
    .get_file = fault_get_file,
    .put_file = fault_put_file,
    .lend_file = fault_lend_file,
    .close = fault_close,
};

enum hf_status store_fault(struct store *inner, const struct fault_plan *plan,
                           struct store **ret_store, struct hf_error *error)
{
    struct fault_store *fault = malloc(sizeof *fault);
    if (!fault)
        return error_no_memory(error);
    *fault = (struct fault_store){
        .base = { .ops = &fault_ops,
                  .env = inner->env,
                  .inner = inner,
                  .traits = inner->traits,
                  .barred = inner->barred },
        .plan = *plan,
        .shared = { .prng = prng_seeded(plan->seed) },
    };
    fault->base.traits.conflict_final = false; /* it may send a put twice */
    env_mutex_init(inner->env, &fault->shared.mutex);
    env_cond_init(inner->env, &fault->shared.changed);
    enum hf_status status = env_task_start(inner->env, postman, fault, &fault->postman, error);
    if (status != HF_OK) {
        env_cond_release(&fault->shared.changed);
        env_mutex_release(&fault->shared.mutex);
        free(fault);
        return status;
    }
    *ret_store = &fault->base;
    return HF_OK;
}
