/* SPDX-License-Identifier: Apache-2.0 */
/* doc_kit.c: a ledger document, and an env of one task with a virtual clock and a scripted
 * store. */
#include "doc_kit.h"

#include "base/check.h"
#include "base/parse.h"
#include "test.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

/* ---- The ledger ---------------------------------------------------------------------- */

static atomic_int bodies;

int ledger_bodies(void)
{
    return atomic_load(&bodies);
}

static struct ledger *ledger_new(void)
{
    struct ledger *ledger = calloc(1, sizeof *ledger);
    if (ledger)
        atomic_fetch_add(&bodies, 1);
    return ledger;
}

void ledger_drop(struct ledger *ledger)
{
    if (!ledger)
        return;
    atomic_fetch_sub(&bodies, 1);
    free(ledger->entries);
    free(ledger);
}

static void ledger_free(void *body)
{
    ledger_drop(body);
}

/* False if memory runs out. */
static bool ledger_append(struct ledger *ledger, uint64_t id, struct view nonce)
{
    if (ledger->count == ledger->room) {
        size_t more = ledger->room > 0 ? 2 * ledger->room : 16;
        struct ledger_entry *entries = realloc(ledger->entries, more * sizeof *entries);
        if (!entries)
            return false;
        ledger->entries = entries;
        ledger->room = more;
    }
    struct ledger_entry *entry = &ledger->entries[ledger->count++];
    entry->id = id;
    memcpy(entry->nonce, nonce.data, NONCE_SIZE);
    entry->nonce[NONCE_SIZE] = '\0';
    return true;
}

/* "NONCE\n", then "ID NONCE\n" for each. */
static enum hf_status ledger_parse(struct view bytes, struct ledger *ledger,
                                   struct hf_error *error)
{
    bool good = view_cut(&bytes, '\n').size == NONCE_SIZE;
    while (good && bytes.size > 0) {
        struct view line = view_cut(&bytes, '\n');
        struct view number = view_cut(&line, ' ');
        uint64_t id;
        good = parse_u64(number, UINT64_MAX, &id, NULL) == HF_OK && line.size == NONCE_SIZE;
        if (good && !ledger_append(ledger, id, line))
            return error_no_memory(error);
    }
    return good ? HF_OK : error_set(error, HF_CORRUPT, "this is no ledger");
}

static enum hf_status ledger_decode(struct view bytes, struct mono_time arrived,
                                    const void *previous, void **ret_body,
                                    struct hf_error *error)
{
    const struct ledger *before = previous;
    struct ledger *ledger = ledger_new();
    if (!ledger)
        return error_no_memory(error);
    ledger->arrived = arrived;
    if (before)
        ledger->previous_arrived = before->arrived;
    enum hf_status status = ledger_parse(bytes, ledger, error);
    if (status == HF_OK)
        *ret_body = ledger;
    else
        ledger_drop(ledger);
    return status;
}

static bool ledger_encode(const void *body, struct view nonce, struct buffer *text)
{
    const struct ledger *ledger = body;
    buffer_print(text, "%.*s\n", VIEW_ARGS(nonce));
    for (size_t i = 0; i < ledger->count; i++)
        buffer_print(text, "%" PRIu64 " %s\n", ledger->entries[i].id, ledger->entries[i].nonce);
    return !text->failed;
}

bool ledger_whole = true;

static bool ledger_is_whole(const void *body)
{
    const struct ledger *ledger = body;
    return ledger_whole && !ledger->stub;
}

static enum hf_status ledger_prepare(void *argument, struct view key, void *body,
                                     struct mono_time deadline, struct hf_error *error)
{
    struct ledger_context *context = argument;
    struct ledger *ledger = body;
    (void)key;
    (void)deadline;
    ledger->stub = false;
    context->prepared++;
    if (context->prepare_conflicts > 0) {
        context->prepare_conflicts--;
        return error_set(error, HF_CONFLICT, "another by now");
    }
    if (context->prepare_status != HF_OK)
        return error_set(error, context->prepare_status, "cannot be prepared");
    return HF_OK;
}

static void *ledger_birth(void *argument)
{
    struct ledger_context *context = argument;
    struct ledger *ledger = ledger_new();
    if (ledger)
        ledger->stub = context->stub;
    return ledger;
}

const struct doc_type ledger_type = {
    .bytes_max = 256 * KIB,
    .decode = ledger_decode,
    .is_whole = ledger_is_whole,
    .prepare = ledger_prepare,
    .birth = ledger_birth,
    .encode = ledger_encode,
    .free = ledger_free,
};

const struct ledger_entry *ledger_find(const struct ledger *ledger, uint64_t id)
{
    for (size_t i = 0; i < ledger->count; i++)
        if (ledger->entries[i].id == id)
            return &ledger->entries[i];
    return NULL;
}

size_t ledger_times(const struct ledger *ledger, uint64_t id)
{
    size_t times = 0;
    for (size_t i = 0; i < ledger->count; i++)
        times += ledger->entries[i].id == id;
    return times;
}

struct ledger *ledger_read(struct store *store)
{
    struct buffer text = BUFFER_INIT(256 * KIB);
    struct get_call get = { .key = KIT_KEY, .body = &text };
    enum hf_status status = store_get(store, &get);
    struct ledger *ledger = NULL;
    if (status == HF_OK) {
        ledger = ledger_new();
        assert_non_null(ledger);
        assert_status(HF_OK, ledger_parse(buffer_view(&text), ledger, &get.error), &get.error);
    } else {
        assert_int_equal(status, HF_NOT_FOUND);
    }
    buffer_release(&text);
    return ledger;
}

/* ---- The operation ------------------------------------------------------------------- */

static void note_nonce(struct add *add, const char *nonce)
{
    memcpy(add->nonce, nonce, NONCE_SIZE);
    add->nonce[NONCE_SIZE] = '\0';
}

static enum hf_status apply_add(struct doc_op *op, void *body, const struct evidence *evidence)
{
    struct add *add = (struct add *)(void *)op;
    struct ledger *ledger = body;
    add->applied++;
    const struct ledger_entry *mine = ledger_find(ledger, add->id);
    if (mine) {
        note_nonce(add, mine->nonce);
        return HF_OK;
    }
    if (add->unless > 0 && ledger_find(ledger, add->unless))
        return error_set(&op->error, HF_HELD, "%" PRIu64 " is there", add->unless);
    if (add->refuse_from > 0 && add->applied >= add->refuse_from)
        return error_set(&op->error, HF_HELD, "it is too late");
    if (add->touch_nothing)
        return HF_OK;
    if (!ledger_append(ledger, add->id, evidence->nonce))
        return error_no_memory(&op->error);
    note_nonce(add, evidence->nonce.data);
    op->changed = true;
    return HF_OK;
}

struct add add_of(struct env *env, uint64_t id)
{
    return (struct add){
        .op = { .apply = apply_add, .deadline = mono_add(env_now(env), KIT_DEADLINE) }, .id = id
    };
}

/* ---- A world of one task ------------------------------------------------------------- */

static struct kit *kit_of(struct env *env)
{
    return (struct kit *)(void *)env;
}

static struct mono_time world_now(struct env *env)
{
    return (struct mono_time){ kit_of(env)->now_us };
}

static struct wall_time world_wall(struct env *env)
{
    return (struct wall_time){ kit_of(env)->now_us + INT64_C(1700000000000000) };
}

static const char *world_boot_id(struct env *env)
{
    (void)env;
    return "a-boot";
}

static void world_sleep_until(struct env *env, struct mono_time moment)
{
    struct kit *kit = kit_of(env);
    check(!kit->locked);
    struct span span = mono_since(moment, world_now(env));
    if (kit->sleep_count < KIT_SLEEPS_MAX)
        kit->sleeps[kit->sleep_count] = span;
    kit->sleep_count++;
    if (kit->asleep)
        kit->asleep(kit);
    if (span.us > 0)
        kit->now_us = moment.us;
}

static void world_random(struct env *env, void *bytes, size_t size)
{
    uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)prng_below(&kit_of(env)->prng, 256);
}

static void world_mutex_nothing(struct env_mutex *mutex)
{
    (void)mutex;
}

static void world_mutex_lock(struct env_mutex *mutex)
{
    check(mutex->state[0]++ == 0);
    kit_of(mutex->env)->locked++;
}

static void world_mutex_init(struct env_mutex *mutex)
{
    mutex->state[0] = 0;
}

static void world_mutex_unlock(struct env_mutex *mutex)
{
    check(--mutex->state[0] == 0);
    kit_of(mutex->env)->locked--;
}

static void world_cond_nothing(struct env_cond *cond)
{
    (void)cond;
}

/* There is no other task that could wake this one. */
static bool world_cond_wait_until(struct env_cond *cond, struct env_mutex *mutex,
                                  struct mono_time moment)
{
    (void)mutex;
    check(moment.us < MOMENT_FAR);
    kit_of(cond->env)->now_us = moment.us;
    return false;
}

static const struct env_ops world_ops = {
    .now = world_now,
    .wall = world_wall,
    .boot_id = world_boot_id,
    .sleep_until = world_sleep_until,
    .random = world_random,
    .mutex_init = world_mutex_init,
    .mutex_release = world_mutex_nothing,
    .mutex_lock = world_mutex_lock,
    .mutex_unlock = world_mutex_unlock,
    .cond_init = world_cond_nothing,
    .cond_release = world_cond_nothing,
    .cond_wait_until = world_cond_wait_until,
    .cond_signal = world_cond_nothing,
    .cond_broadcast = world_cond_nothing,
};

/* ---- The script ---------------------------------------------------------------------- */

/* Starts a call: assigns its number, its fate, and the time that it takes. */
static struct fate begin_call(void *argument, struct script_call *call)
{
    struct kit *kit = argument;
    size_t number = kit->call_count++;
    check(!kit->locked && call->first);
    assert_true(number < KIT_CALLS_MAX);
    if (kit->before)
        kit->before(kit, number);
    struct kit_call *record = &kit->calls[number];
    *record = (struct kit_call){ .kind = call->kind,
                                 .at = world_now(&kit->env),
                                 .deadline = call->deadline };
    if (call->put)
        record->condition = call->put->condition.kind;
    else
        record->conditional = (call->get ? &call->get->none_match : &call->change->known)->size;
    kit->now_us += kit->takes.us;
    struct fate fate = number < kit->fate_count ? kit->fates[number] : kit->rest;
    if (call->get && (fate.kind == FATE_LOSE_REPLY || fate.kind == FATE_LATE))
        return PASS;
    return call->get && fate.status == HF_CONFLICT ? REFUSE(HF_UNAVAILABLE) : fate;
}

static void end_call(void *argument, struct script_call *call)
{
    struct kit *kit = argument;
    kit->calls[kit->call_count - 1].status = call->error->status;
}

/* ---- Creating the kit ---------------------------------------------------------------- */

bool kit_open(struct kit *kit)
{
    struct hf_error error;
    *kit = (struct kit){
        .env = { &world_ops }, .now_us = 1000000, .prng = prng_seeded(1), .takes = SPAN_MS(1)
    };
    if (store_open(&kit->env, VIEW("mem:"), &kit->mem, &error) != HF_OK)
        return false;
    script_init(&kit->store, kit->mem);
    script_rule(&kit->store, .decide = begin_call, .reply = end_call, .argument = kit);
    clock_init(&kit->clock, &kit->store.base);
    if (doc_new(&kit->store.base, &kit->clock, KIT_KEY, &ledger_type, &kit->context, &kit->doc,
                &error) == HF_OK &&
        doc_new(kit->mem, &kit->clock, KIT_KEY, &ledger_type, &kit->other_context, &kit->other,
                &error) == HF_OK)
        return true;
    kit_close(kit);
    return false;
}

void kit_close(struct kit *kit)
{
    doc_free(kit->doc);
    doc_free(kit->other);
    clock_release(&kit->clock);
    store_close(&kit->store.base);
    store_close(kit->mem);
}

bool kit_cold(struct kit *kit)
{
    struct hf_error error;
    doc_free(kit->doc);
    kit->doc = NULL;
    return doc_new(&kit->store.base, &kit->clock, KIT_KEY, &ledger_type, &kit->context,
                   &kit->doc, &error) == HF_OK;
}

void kit_script(struct kit *kit, const struct fate *fates, struct fate rest)
{
    kit->fate_count = 0;
    while (fates[kit->fate_count].kind != KIT_END.kind ||
           fates[kit->fate_count].status != KIT_END.status) {
        kit->fates[kit->fate_count] = fates[kit->fate_count];
        kit->fate_count++;
    }
    kit->rest = rest;
    kit->call_count = 0;
    kit->sleep_count = 0;
}

void kit_other_adds(struct kit *kit, uint64_t id)
{
    struct add add = add_of(&kit->env, id);
    assert_status(HF_OK, doc_update(kit->other, &add.op), &add.op.error);
}

size_t kit_times(struct kit *kit, uint64_t id)
{
    struct ledger *ledger = ledger_read(kit->mem);
    size_t times = ledger ? ledger_times(ledger, id) : 0;
    ledger_drop(ledger);
    return times;
}

static size_t count_calls(const struct kit *kit, unsigned kind)
{
    size_t count = 0;
    for (size_t i = 0; i < kit->call_count; i++)
        count += kit->calls[i].kind == kind;
    return count;
}

size_t kit_puts(const struct kit *kit)
{
    return count_calls(kit, CALL_PUT);
}

size_t kit_gets(const struct kit *kit)
{
    return count_calls(kit, CALL_GET);
}

size_t kit_steps(const struct kit *kit)
{
    return count_calls(kit, CALL_CHANGE);
}

/* ---- For tests ----------------------------------------------------------------------- */

int kit_set_up(void **state)
{
    struct kit *kit = calloc(1, sizeof *kit);
    assert_non_null(kit);
    assert_true(kit_open(kit));
    kit_script(kit, SCRIPT(PASS), PASS);
    *state = kit;
    return 0;
}

int kit_tear_down(void **state)
{
    kit_close(*state);
    free(*state);
    assert_int_equal(ledger_bodies(), 0);
    return 0;
}

enum hf_status kit_update(struct kit *kit, struct add *add)
{
    return doc_update(kit->doc, &add->op);
}

enum hf_status kit_add(struct kit *kit, uint64_t id)
{
    struct add add = add_of(&kit->env, id);
    return kit_update(kit, &add);
}

void kit_warm_up(struct kit *kit)
{
    assert_int_equal(kit_add(kit, 1), HF_OK);
    kit_script(kit, SCRIPT(PASS), PASS);
}
