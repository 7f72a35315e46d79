/* SPDX-License-Identifier: Apache-2.0 */
/* fenced.c: nodes write to one fenced object under locks that they keep losing.
 *
 * There is one named lock, or the locks are paths of a namespace or ranges of an inode. Some of
 * these cover others, some conflict, and some are unrelated. The first writer determines which lock
 * the object belongs to.
 *
 * Leases are short, and holders pause for longer than a lease lasts. Some holders are reckless: by
 * their clock they hold the lock forever, so only the fence can stop them. Some leases are passed
 * on to another node, which then writes with the same token. Some holders write from three tasks
 * concurrently. Every write has its own number, by which the checker recognises it. The checker
 * parses the fence according to its documented format, and uses none of the code under test. It
 * checks that:
 *
 *   - the fence's token never decreases, and within one session the numbers never decrease;
 *   - a body exists as long as a fence names it;
 *   - the reported result of a write is true and stays true: a write that took effect, even
 *     briefly, is never reported as not done or as FENCED;
 *   - a reader gets data that was in the object at some instant during its call;
 *   - every write belongs to a lock that is held exclusively and covers the lock of the first
 *     writer, which the fence keeps forever; the holder of any other lock always gets MISMATCH;
 *   - during the fault-free phase, no body is left that no fence names. */
#include "base/check.h"
#include "base/json.h"
#include "base/parse.h"
#include "lock/client_inside.h"
#include "lock/handle.h"
#include "sim/run.h"

#include <inttypes.h>
#include <stdlib.h>

#define KEY             "shared/object"
#define NUMBER_DIGITS   20
#define SMALL_MAX       200
#define LARGE_SIZE      5000
#define WRITES_MAX      4 /* under one lease, one after another */
#define TURN_WRITES_MAX 7 /* under one lease in total */
#define VERSIONS_EVERY  4 /* versions that one write may create */
#define CALM_TRIES_MAX  8
#define BODIES          KEY ".hf/"
#define SCOPES_MAX      64 /* the scopes of a fence, as text */

/* This long after the fault-free phase begins, no node is partitioned, and every request in flight
 * has arrived. */
#define SETTLE SPAN_S(90)

/* The locks that a node may hold. Each covers a set of points, listed here explicitly. For ranges:
 * the bytes 0-5, 5-10, 10-15, 15-20, all later bytes, and the inode itself. For paths: /, /a, /a/b,
 * /a/c, /c, and everything else under /a/b, under /a, under /c, and under /. */
struct wish {
    const char *scopes[2];
    size_t scope_count;
    unsigned points;
    bool shared;
};

struct family {
    const char *table;
    size_t wish_count; /* the first lock covers all others */
    struct wish wishes[8];
};

static const struct family families[] = {
    { "default/meta/object.json", 1, { { { "object" }, 1, 1, false } } },
    { "default/paths.json",
      8,
      { { { "tree:/" }, 1, 0x1ff, false },
        { { "path:/a/b" }, 1, 0x004, false },
        { { "tree:/a/b" }, 1, 0x024, false },
        { { "tree:/a" }, 1, 0x06e, false },
        { { "path:/a/c" }, 1, 0x008, false },
        { { "tree:/c" }, 1, 0x090, false },
        { { "path:/a/b", "path:/a/c" }, 2, 0x00c, false },
        { { "path:/a/b" }, 1, 0x004, true } } },
    { "default/inode/7.json",
      8,
      { { { "inode:7" }, 1, 0x3f, false },
        { { "range:7:0-10" }, 1, 0x03, false },
        { { "range:7:5-15" }, 1, 0x06, false },
        { { "range:7:0-20" }, 1, 0x0f, false },
        { { "range:7:20-" }, 1, 0x10, false },
        { { "range:7:10-15" }, 1, 0x04, false },
        { { "range:7:0-5", "range:7:15-20" }, 2, 0x09, false },
        { { "range:7:0-10" }, 1, 0x03, true } } },
};

enum told {
    TOLD_NOTHING,
    TOLD_DONE,
    TOLD_NOT_DONE,
    TOLD_FENCED,
    TOLD_MISMATCH,
    TOLD_UNSURE,
};

/* One write call of a node. */
struct record {
    unsigned node;
    const struct wish *wish;
    uint64_t token;
    bool is_delete;
    bool calling; /* the call is in progress, or its node died during it */
    enum told told;
    uint64_t landed;        /* its last version, or 0 */
    bool overtaken_by_same; /* by another session's write with the same token */
};

/* The versions of the object, in order; version 0 means that it does not exist. */
struct version {
    uint64_t token;
    uint64_t seq;
    char session[NONCE_SIZE + 1];
    uint64_t number;             /* the number of the write; 0: no body */
    char scopes[SCOPES_MAX + 1]; /* as raw text */
    char body[KEY_BYTES_MAX + 1];
};

/* A body that is in the store. */
struct body {
    char key[KEY_BYTES_MAX + 1];
    int64_t sent_us;
};

struct fenced {
    struct run *run;
    const struct family *family;
    const struct wish *owner; /* the owner of the object; NULL: none yet */
    struct bucket_watch watch;
    struct record *records; /* numbered from 1 */
    uint64_t started, room;
    struct version *versions;
    uint64_t current, version_room;
    struct etag fence, table; /* their current ETags */
    struct body *bodies;
    size_t body_count;
    uint64_t left[NODES_MAX + 1];
    bool done_in_calm[NODES_MAX + 1];
    char lease[HF_LEASE_TEXT_MAX]; /* a lease that its holder has passed on, ... */
    const struct wish *lent;       /* ... and its lock */
};

/* ---- The owner of the object --------------------------------------------------------- */

/* The scopes of a fence whose first writer held this lock. */
static void scopes_as_text(const struct wish *wish, char text[SCOPES_MAX + 1])
{
    const char *kind = strchr(wish->scopes[0], ':') ? "" : "named:";
    if (wish->scope_count > 1)
        snprintf(text, SCOPES_MAX + 1, "[\"%s\", \"%s\"]", wish->scopes[0], wish->scopes[1]);
    else
        snprintf(text, SCOPES_MAX + 1, "[\"%s%s\"]", kind, wish->scopes[0]);
}

/* Whether the holder of this lock may write an object that belongs to that owner. */
static bool may_write(const struct wish *wish, const struct wish *owner)
{
    return !wish->shared && (!owner || (owner->points & ~wish->points) == 0);
}

/* The lock that a token was issued for; each table has its own tokens. */
static const struct wish *wish_of_token(const struct fenced *fenced, uint64_t token)
{
    for (uint64_t i = fenced->started; i > 0; i--)
        if (fenced->records[i].token == token)
            return fenced->records[i].wish;
    return NULL;
}

/* ---- What the store applied ---------------------------------------------------------- */

/* Parses the line of a fence. Returns false if it is not a fence. */
static bool read_fence(struct view bytes, struct version *version, bool *ret_inline,
                       struct view *ret_rest)
{
    struct view name, raw, text;
    struct view line = view_cut(&bytes, '\n');
    struct json_reader reader = json_read(line);
    *version = (struct version){ 0 };
    *ret_inline = false;
    *ret_rest = bytes;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("token"))) {
            json_take_u64(&reader, UINT64_MAX, &version->token);
        } else if (view_equal(name, VIEW("seq"))) {
            json_take_u64(&reader, UINT64_MAX, &version->seq);
        } else if (view_equal(name, VIEW("inline"))) {
            json_take_bool(&reader, ret_inline);
        } else if (view_equal(name, VIEW("session")) && json_take_plain(&reader, &text)) {
            memcpy(version->session, text.data, view_first(text, NONCE_SIZE).size);
        } else if (view_equal(name, VIEW("scopes")) && json_skip(&reader, &raw)) {
            memcpy(version->scopes, raw.data, view_first(raw, SCOPES_MAX).size);
        } else if (view_equal(name, VIEW("body")) && json_take_plain(&reader, &text)) {
            memcpy(version->body, text.data, view_first(text, KEY_BYTES_MAX).size);
        } else {
            json_skip(&reader, &raw);
        }
    }
    return json_end(&reader);
}

/* The number at the start of a body; 0 if no node of this workload wrote it. */
static uint64_t number_in(const struct fenced *fenced, struct view body)
{
    uint64_t number = 0;
    struct hf_error error;
    if (body.size < NUMBER_DIGITS ||
        parse_u64(view_first(body, NUMBER_DIGITS), UINT64_MAX, &number, &error) != HF_OK ||
        number > fenced->started)
        return 0;
    return number;
}

static bool same_writer(const struct version *a, const struct version *b)
{
    return a->token == b->token && strcmp(a->session, b->session) == 0;
}

/* Records that the object now contains the write with this number. */
static void land(struct fenced *fenced, uint64_t number, const struct version *version)
{
    struct world *world = fenced->run->world;
    struct record *record = &fenced->records[number];
    bool again = record->landed > 0;
    if (record->token != version->token)
        world_fail(world,
                   "write %" PRIu64 " is in the object with token %" PRIu64
                   ", but was made with %" PRIu64,
                   number, version->token, record->token);
    if (!record->calling && record->told != TOLD_UNSURE)
        world_fail(world, "write %" PRIu64 " of node %u took effect after the node was told",
                   number, record->node);
    if (again && !record->overtaken_by_same)
        world_fail(world, "write %" PRIu64 " of node %u took effect twice", number,
                   record->node);
    record->landed = fenced->current;
    record->overtaken_by_same = false;
}

static void note_overtaken(struct fenced *fenced, const struct version *version)
{
    for (uint64_t i = 1; i <= fenced->started; i++) {
        struct record *record = &fenced->records[i];
        const struct version *landed = &fenced->versions[record->landed];
        if (landed->token == version->token && !same_writer(landed, version))
            record->overtaken_by_same = true;
    }
}

/* The writer must have been allowed to write, and must not change the owner of the fence. */
static void check_owner(struct fenced *fenced, const struct version *version)
{
    struct world *world = fenced->run->world;
    const struct wish *wish = wish_of_token(fenced, version->token);
    char scopes[SCOPES_MAX + 1];
    if (version->token == 0) /* not written yet */
        return;
    if (!wish) {
        world_fail(world, "the object was written with token %" PRIu64 ", which is nobody's",
                   version->token);
        return;
    }
    if (!may_write(wish, fenced->owner))
        world_fail(world, "whoever %s %s has written what belongs to %s",
                   wish->shared ? "shared" : "held", wish->scopes[0],
                   fenced->owner ? fenced->owner->scopes[0] : "nobody");
    if (!fenced->owner)
        fenced->owner = wish;
    scopes_as_text(fenced->owner, scopes);
    if (strcmp(scopes, version->scopes) != 0)
        world_fail(world, "the object of %s says that it belongs to %s", scopes,
                   version->scopes);
}

/* Checks each fence that is written. */
static void fence_changed(struct fenced *fenced, struct view bytes)
{
    struct world *world = fenced->run->world;
    const struct version *before = &fenced->versions[fenced->current];
    struct version version;
    bool is_inline;
    struct view body;
    if (!bytes.data || !read_fence(bytes, &version, &is_inline, &body)) {
        world_fail(world, "a write left something that is no fence");
        return;
    }
    if (version.body[0] != '\0')
        body = bucket_peek(net_bucket(fenced->run->net), view_of(version.body));
    if (!body.data) {
        world_fail(world, "the fence of token %" PRIu64 " names a body that is not there",
                   version.token);
        return;
    }
    if (is_inline || version.body[0] != '\0')
        version.number = number_in(fenced, body);
    if ((is_inline || version.body[0] != '\0') && version.number == 0)
        world_fail(world, "the object has a body that nobody wrote");
    if (version.token < before->token)
        world_fail(world, "the fence went back from token %" PRIu64 " to %" PRIu64,
                   before->token, version.token);
    if (same_writer(before, &version) && version.seq < before->seq)
        world_fail(world, "the fence went back to number %" PRIu64 " of token %" PRIu64,
                   version.seq, version.token);
    check_owner(fenced, &version);
    if (same_writer(before, &version) && version.seq == before->seq) {
        if (version.number != before->number)
            world_fail(world, "two writes have one number");
        return; /* rewritten, to make other writes fail */
    }
    if (fenced->current + 1 == fenced->version_room) {
        world_fail(world, "%" PRIu64 " versions did not suffice", fenced->version_room);
        return;
    }
    fenced->versions[++fenced->current] = version;
    note_overtaken(fenced, &version);
    if (version.number > 0)
        land(fenced, version.number, &version);
}

static void check_order(struct fenced *fenced, const struct bucket_change *change,
                        struct etag *etag)
{
    if (!bucket_change_in_order(change, etag))
        world_fail(fenced->run->world, "a document was written over one that was not seen");
}

static void body_changed(struct fenced *fenced, const struct bucket_change *change)
{
    size_t at = 0;
    while (at < fenced->body_count && !view_equal(view_of(fenced->bodies[at].key), change->key))
        at++;
    if (at < fenced->body_count)
        fenced->bodies[at] = fenced->bodies[--fenced->body_count];
    if (!change->body.data)
        return;
    size_t count = fenced->body_count++;
    fenced->bodies = realloc(fenced->bodies, (count + 1) * sizeof *fenced->bodies);
    check(fenced->bodies && change->key.size <= KEY_BYTES_MAX);
    fenced->bodies[count] = (struct body){ .sent_us = net_sender(fenced->run->net).sent_us };
    memcpy(fenced->bodies[count].key, change->key.data, change->key.size);
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct fenced *fenced = argument;
    const struct version *current = &fenced->versions[fenced->current];
    if (view_equal(change->key, view_of(fenced->family->table))) {
        check_order(fenced, change, &fenced->table);
    } else if (view_equal(change->key, VIEW(KEY))) {
        check_order(fenced, change, &fenced->fence);
        fence_changed(fenced, change->body);
    } else if (view_equal(change->key, view_of(current->body))) {
        world_fail(fenced->run->world, "the body that the fence names was %s",
                   change->body.data ? "written again" : "deleted");
    }
    if (view_starts_with(change->key, VIEW(BODIES)))
        body_changed(fenced, change);
}

/* ---- Operations of a node ------------------------------------------------------------ */

struct actor {
    struct fenced *fenced;
    struct env *env;
    struct store *store;
    struct hf_client *client;
    unsigned node;
    const struct wish *wish; /* the lock that it holds */
};

static uint64_t draw(struct actor *actor, uint64_t bound)
{
    return env_random_below(actor->env, bound);
}

static enum told told_by(struct actor *actor, enum hf_status status)
{
    if (status == HF_OK)
        return TOLD_DONE;
    if (status == HF_UNSURE)
        return TOLD_UNSURE;
    if (status == HF_FENCED)
        return TOLD_FENCED;
    if (status == HF_MISMATCH)
        return TOLD_MISMATCH;
    if (status != HF_EXPIRED && status != HF_LOST && status != HF_TIMEOUT &&
        status != HF_UNAVAILABLE)
        world_fail(actor->fenced->run->world, "node %u was told %s", actor->node,
                   hf_status_name(status));
    return TOLD_NOT_DONE;
}

/* Whether another call of the same node was written since version `first`. If two calls of one node
 * are in progress concurrently, only the later one may ever be written. */
static bool was_superseded_since(const struct fenced *fenced, uint64_t first,
                                 const struct record *record)
{
    for (uint64_t i = first + 1; i <= fenced->current; i++) {
        const struct version *version = &fenced->versions[i];
        if (version->token == record->token &&
            (version->number == 0 || fenced->records[version->number].node == record->node))
            return true;
    }
    return false;
}

/* A delete has no number, but leaves a version without a body. */
static bool was_deleted_since(const struct fenced *fenced, uint64_t first, uint64_t token)
{
    for (uint64_t i = first + 1; i <= fenced->current; i++)
        if (fenced->versions[i].number == 0 && fenced->versions[i].token == token)
            return true;
    return false;
}

static void checker_told(struct actor *actor, uint64_t number, uint64_t first)
{
    struct fenced *fenced = actor->fenced;
    struct world *world = fenced->run->world;
    const struct record *record = &fenced->records[number];
    bool landed = record->is_delete ? was_deleted_since(fenced, first, record->token)
                                    : record->landed > 0;
    if (record->told == TOLD_DONE && !landed && !was_superseded_since(fenced, first, record))
        world_fail(world, "node %u was told that write %" PRIu64 " is done, but it is not",
                   actor->node, number);
    bool allowed = may_write(record->wish, fenced->owner);
    if (allowed ? record->told == TOLD_MISMATCH
                : record->told == TOLD_DONE || record->told == TOLD_FENCED)
        world_fail(world, "node %u held %s and was told %s of what belongs to %s", actor->node,
                   record->wish->scopes[0], allowed ? "MISMATCH" : "something else",
                   fenced->owner ? fenced->owner->scopes[0] : "nobody");
    if (record->is_delete || !landed)
        return;
    if (record->told == TOLD_NOT_DONE || record->told == TOLD_FENCED)
        world_fail(world, "node %u was told that write %" PRIu64 " is not done, but it is",
                   actor->node, number);
}

static enum hf_status write_object(struct actor *actor, struct hf_lock *lock, bool may_delete)
{
    struct fenced *fenced = actor->fenced;
    char bytes[LARGE_SIZE + 1];
    bool is_large = draw(actor, 3) == 0;
    size_t size = is_large ? LARGE_SIZE : NUMBER_DIGITS + (size_t)draw(actor, SMALL_MAX);
    bool is_delete = may_delete && draw(actor, 8) == 0;
    if (fenced->started == fenced->room)
        world_fail(fenced->run->world, "%" PRIu64 " writes did not suffice", fenced->room);
    uint64_t number = ++fenced->started, first = fenced->current;
    struct record *record = &fenced->records[number];
    *record = (struct record){ .node = actor->node,
                               .wish = actor->wish,
                               .token = hf_lock_token(lock),
                               .is_delete = is_delete,
                               .calling = true };
    memset(bytes, '.', sizeof bytes);
    snprintf(bytes, sizeof bytes, "%0*" PRIu64, NUMBER_DIGITS, number);
    bytes[NUMBER_DIGITS] = '.';
    bool over = hf_lock_check(lock, NULL) != HF_OK;
    enum hf_status status = is_delete ? hf_fenced_delete(lock, KEY, NULL)
                                      : hf_fenced_put(lock, KEY, bytes, size, NULL);
    if (over && status == HF_OK)
        world_fail(fenced->run->world, "node %u wrote %" PRIu64 " with a lease that was over",
                   actor->node, number);
    record->told = told_by(actor, status);
    record->calling = false;
    checker_told(actor, number, first);
    return status;
}

/* Whether the object has contained the write with this number at any time since version `first`. */
static bool was_there_since(const struct fenced *fenced, uint64_t first, uint64_t number)
{
    for (uint64_t i = first; i <= fenced->current; i++)
        if (fenced->versions[i].number == number)
            return true;
    return false;
}

static enum hf_status read_object(struct actor *actor)
{
    struct fenced *fenced = actor->fenced;
    struct world *world = fenced->run->world;
    struct buffer body = BUFFER_INIT(2 * LARGE_SIZE);
    struct hf_error error;
    uint64_t token = 0, number = 0, first = fenced->current;
    enum hf_status status = fenced_read(actor->client, VIEW(KEY), &body, &token, &error);
    if (status == HF_OK)
        number = number_in(fenced, buffer_view(&body));
    buffer_release(&body);
    if (status == HF_OK && (number == 0 || fenced->records[number].token != token))
        world_fail(world, "node %u read something that nobody wrote", actor->node);
    if (status != HF_OK && status != HF_NOT_FOUND && status != HF_UNAVAILABLE)
        world_fail(world, "node %u could not read: %s", actor->node, hf_status_name(status));
    if (status != HF_UNAVAILABLE && !was_there_since(fenced, first, number))
        world_fail(world, "node %u read what was not there during its call: write %" PRIu64,
                   actor->node, number);
    return status;
}

/* Makes the lease valid forever by this holder's clock. */
static void become_reckless(struct hf_lock *lock)
{
    env_mutex_lock(&lock->client->keeper.mutex);
    lock->validity.until = (struct mono_time){ MOMENT_FAR / 2 };
    lock->validity.by_store = false;
    env_mutex_unlock(&lock->client->keeper.mutex);
}

struct hand {
    struct actor *actor;
    struct hf_lock *lock;
};

static void write_twice(void *argument)
{
    struct hand *hand = argument;
    write_object(hand->actor, hand->lock, /* may_delete */ true);
    write_object(hand->actor, hand->lock, /* may_delete */ true);
}

/* Three tasks use one handle, so they write the same document. */
static void write_with_three_hands(struct actor *actor, struct hf_lock *lock)
{
    struct hand hand = { actor, lock };
    struct env_task *tasks[2];
    struct hf_error error;
    for (size_t i = 0; i < 2; i++)
        check(env_task_start(actor->env, write_twice, &hand, &tasks[i], &error) == HF_OK);
    write_twice(&hand);
    for (size_t i = 0; i < 2; i++)
        env_task_join(actor->env, tasks[i]);
}

static void write_and_pause(struct actor *actor, struct hf_lock *lock)
{
    uint64_t count = 1 + draw(actor, WRITES_MAX);
    if (draw(actor, 3) == 0) {
        write_with_three_hands(actor, lock);
        count = 1;
    }
    for (uint64_t i = 0; i < count; i++) {
        write_object(actor, lock, /* may_delete */ true);
        struct span most = draw(actor, 3) == 0 ? SPAN_S(10) : SPAN_MS(200);
        env_sleep(actor->env, env_jitter(actor->env, most));
    }
}

static void end_lease(struct actor *actor, struct hf_lock *lock)
{
    if (draw(actor, 2) == 0)
        hf_lock_release(lock, NULL);
    hf_lock_free(lock);
}

static struct hf_lock *new_lock(struct actor *actor, const struct wish *wish, bool renewed)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *lock;
    struct hf_error error;
    options.ttl_ms = 1000 + (int64_t)draw(actor, 4000);
    options.no_renewal = !renewed;
    options.mode = wish->shared ? HF_SHARED : HF_EXCLUSIVE;
    check(hf_lock_new_many(actor->client, wish->scopes, wish->scope_count, &options, &lock,
                           &error) == HF_OK);
    actor->wish = wish;
    return lock;
}

/* Chooses one of the locks at random. */
static const struct wish *draw_wish(struct actor *actor)
{
    const struct family *family = actor->fenced->family;
    return &family->wishes[family->wish_count > 1 ? draw(actor, family->wish_count) : 0];
}

static void hold_and_write(struct actor *actor)
{
    struct hf_error error;
    const struct wish *wish = draw_wish(actor);
    bool reckless = draw(actor, 2) == 0;
    bool renewed = !reckless && draw(actor, 2) == 0;
    struct hf_lock *lock = new_lock(actor, wish, renewed);
    if (hf_lock_acquire(lock, 10000, &error) == HF_OK) {
        if (reckless)
            become_reckless(lock);
        char lease[HF_LEASE_TEXT_MAX] = "";
        hf_lock_text(lock, lease, &error);
        memcpy(actor->fenced->lease, lease, sizeof lease); /* both are set without yielding */
        actor->fenced->lent = wish;
        write_and_pause(actor, lock);
    }
    end_lease(actor, lock);
}

static void write_with_a_lease_of_another(struct actor *actor)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    char lease[HF_LEASE_TEXT_MAX];
    struct hf_lock *lock;
    struct hf_error error;
    options.no_renewal = draw(actor, 2) == 0;
    memcpy(lease, actor->fenced->lease, sizeof lease);
    const struct wish *wish = actor->fenced->lent;
    if (lease[0] == '\0' ||
        hf_lock_adopt(actor->client, lease, &options, &lock, &error) != HF_OK)
        return;
    actor->wish = wish;
    if (options.no_renewal && draw(actor, 2) == 0)
        become_reckless(lock);
    write_and_pause(actor, lock);
    end_lease(actor, lock);
}

static void take_a_turn(struct actor *actor)
{
    switch (draw(actor, 6)) {
    case 0: read_object(actor); break;
    case 1: write_with_a_lease_of_another(actor); break;
    default: hold_and_write(actor);
    }
    read_object(actor);
    env_sleep(actor->env, env_jitter(actor->env, SPAN_S(2)));
}

/* During the fault-free phase, all work must finish. */
static bool write_in_calm(struct actor *actor)
{
    struct hf_error error;
    for (int i = 0; i < CALM_TRIES_MAX; i++) {
        struct hf_lock *lock =
            new_lock(actor, &actor->fenced->family->wishes[0], /* renewed */ true);
        bool done = hf_lock_acquire(lock, 600000, &error) == HF_OK &&
                    write_object(actor, lock, /* may_delete */ false) == HF_OK &&
                    read_object(actor) == HF_OK;
        hf_lock_release(lock, NULL);
        hf_lock_free(lock);
        if (done)
            return true;
    }
    return false;
}

static void program(struct node *node, void *argument)
{
    struct fenced *fenced = argument;
    struct hf_error error;
    struct actor actor = { .fenced = fenced,
                           .env = node_env(node),
                           .store = net_store_open(fenced->run->net, node),
                           .node = node_number(node) };
    check(actor.store);
    check(client_new(actor.store, NULL, &actor.client, &error) == HF_OK);
    while (fenced->left[actor.node] > 0) {
        fenced->left[actor.node]--;
        run_count_operation(fenced->run);
        take_a_turn(&actor);
    }
    int64_t calm_us = fenced->run->calm_us + SETTLE.us;
    if (world_now_us(fenced->run->world) < calm_us)
        env_sleep_until(actor.env, node_moment(node, calm_us));
    fenced->done_in_calm[actor.node] = write_in_calm(&actor);
    hf_client_close(actor.client);
    store_close(actor.store);
}

/* ---- The checker ----------------------------------------------------------------------- */

/* Counts the bodies that were written without faults and that the fence does not name. */
static size_t count_orphans(const struct fenced *fenced)
{
    size_t count = 0;
    for (size_t i = 0; i < fenced->body_count; i++)
        count += fenced->bodies[i].sent_us >= fenced->run->calm_us + SETTLE.us &&
                 strcmp(fenced->bodies[i].key, fenced->versions[fenced->current].body) != 0;
    return count;
}

static void checker(struct run *run, void *state)
{
    struct fenced *fenced = state;
    size_t crashes = 0;
    for (size_t i = 0; i < world_node_count(run->world); i++)
        crashes += node_lives(world_node(run->world, i)) - 1;
    bool crash_in_calm = run->calm_us == 0 && crashes > 0;
    if (count_orphans(fenced) > (crash_in_calm ? crashes : 0))
        world_fail(run->world,
                   "%zu bodies that no fence names are left by writes after the faults",
                   count_orphans(fenced));
    for (unsigned i = 1; i <= run->options->nodes; i++)
        if (!fenced->done_in_calm[i])
            world_fail(run->world, "node %u could not write after the faults had stopped", i);
}

/* ---- Creation ------------------------------------------------------------------------ */

static void *start(struct run *run)
{
    struct fenced *fenced = calloc(1, sizeof *fenced);
    check(fenced);
    unsigned nodes = run->options->nodes;
    struct prng prng = world_stream(run->world, STREAM_WORKLOAD);
    uint64_t family = prng_below(&prng, 4); /* half of the seeds have one lock */
    fenced->run = run;
    fenced->family = &families[family < 2 ? 0 : family - 1];
    uint64_t most = TURN_WRITES_MAX * (uint64_t)run->options->operations;
    fenced->room = most + 64 * CALM_TRIES_MAX * (uint64_t)nodes;
    fenced->records = calloc(fenced->room + 1, sizeof *fenced->records);
    fenced->version_room = VERSIONS_EVERY * (most + 64 * (uint64_t)nodes);
    fenced->versions = calloc(fenced->version_room, sizeof *fenced->versions);
    check(fenced->records && fenced->versions);
    fenced->watch = (struct bucket_watch){ .changed = changed, .argument = fenced };
    bucket_add_watch(net_bucket(run->net), &fenced->watch);
    for (unsigned i = 0; i < run->options->operations; i++)
        fenced->left[1 + i % nodes]++;
    for (unsigned i = 0; i < nodes; i++)
        node_boot(world_node(run->world, i), program, fenced);
    return fenced;
}

static void free_state(void *state)
{
    struct fenced *fenced = state;
    free(fenced->bodies);
    free(fenced->records);
    free(fenced->versions);
    free(fenced);
}

const struct workload workload_fenced = {
    .name = "fenced",
    .about = "nodes write a fenced object under leases that they lose; no token ever falls",
    .start = start,
    .check_at_end = checker,
    .free = free_state,
};
