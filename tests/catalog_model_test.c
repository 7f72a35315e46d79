/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_model_test.c: applies thousands of random operations to a catalog and to a very
 * simple model of it: an array of keys with the state of each. Some operations are applied
 * twice, as after a lost reply, and the catalog is written and read again from time to time. */
#include "base/prng.h"
#include "catalog_kit.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS    120 /* 0 to 59 of level 0, then 30 each of levels 1 and 2 */
#define WRITERS 3
#define GROUPS  4096

struct model_key {
    enum chunk_state state;
    int group; /* grave or removal that it is in */
    unsigned tries;
    bool quarantined;
    uint64_t sequence;
};

/* A grave, then a removal of the same number. */
struct model_group {
    int into; /* -1: none */
    bool undone, done, by_age;
    int64_t since;
};

struct model {
    struct prng prng;
    struct catalog *catalog;
    int64_t now;
    struct model_key keys[KEYS];
    struct model_group groups[GROUPS];
    int group_count;
    uint64_t sequences[WRITERS];
    bool split;
};

static unsigned level_of(int id)
{
    return id < 60 ? 0 : id < 90 ? 1 : 2;
}

static struct view key_of(int id)
{
    static char keys[KEYS][96];
    if (!keys[id][0])
        snprintf(keys[id], sizeof keys[0], "data/default/L%u/2026/11/%032d.usv", level_of(id),
                 id);
    return view_of(keys[id]);
}

static struct chunk chunk_of(int id)
{
    static const struct view names[WRITERS] = { { "b", 1 }, { "a", 1 }, { "c\"", 2 } };
    return (struct chunk){ .key = key_of(id),
                           .level = level_of(id),
                           .size = 5,
                           .min_ms = id * 1000,
                           .max_ms = id * 1000 + 500,
                           .writer = names[id % WRITERS] };
}

static int draw(struct model *m, int bound)
{
    return (int)prng_below(&m->prng, (uint64_t)bound);
}

/* Different ids, at most 4. */
static size_t draw_ids(struct model *m, int bound, int ids[4])
{
    size_t wanted = 1 + (size_t)draw(m, 4), count = 0;
    for (int tries = 0; tries < 20 && count < wanted; tries++) {
        int id = draw(m, bound);
        bool twice = false;
        for (size_t i = 0; i < count; i++)
            twice = twice || ids[i] == id;
        if (!twice)
            ids[count++] = id;
    }
    return count;
}

static bool was_live(const struct model *m, int id)
{
    enum chunk_state state = m->keys[id].state;
    return state != CHUNK_UNKNOWN && state != CHUNK_CONDEMNED;
}

static int new_group(struct model *m, int into)
{
    assert_true(m->group_count < GROUPS);
    m->groups[m->group_count] = (struct model_group){ .into = into, .since = m->now };
    return m->group_count++;
}

static size_t count_group(const struct model *m, int group, enum chunk_state state)
{
    size_t count = 0;
    for (int i = 0; i < KEYS; i++)
        count += m->keys[i].state == state && m->keys[i].group == group;
    return count;
}

/* As catalog_kit_at tells it: a stamp is a second late, and 30 s of tolerance. */
static bool has_passed(const struct model *m, int64_t since, int64_t seconds)
{
    return m->now > since + 1 + seconds + 30;
}

/* Applies, maybe twice: the second time nothing may change, and OK stays OK. */
static void apply(struct model *m, struct catalog_op *op, enum hf_status expected)
{
    assert_status(expected, kit_apply(m->catalog, op, catalog_kit_at(m->now)), &op->error);
    bool unbounded = op->kind != CATALOG_MAINTAIN;
    if (unbounded && draw(m, 4) == 0) {
        struct catalog_op again = *op;
        assert_status(expected, kit_apply(m->catalog, &again, catalog_kit_at(m->now)),
                      &again.error);
        assert_false(again.changed);
    }
}

static struct mono_time draw_name(struct model *m, bool *ret_old)
{
    *ret_old = draw(m, 20) == 0;
    return (struct mono_time){ (m->now - (*ret_old ? 50000 : 49999)) * 1000000 };
}

/* ---- Operations ---------------------------------------------------------------------- */

static void add(struct model *m)
{
    int ids[4];
    bool old, condemned = false, fresh = false;
    struct chunk chunks[4];
    size_t count = draw_ids(m, 60, ids);
    struct catalog_op op = { .kind = CATALOG_ADD, .chunks = chunks, .chunk_count = count };
    op.drawn = draw_name(m, &old);
    for (size_t i = 0; i < count; i++) {
        chunks[i] = chunk_of(ids[i]);
        condemned = condemned || m->keys[ids[i]].state == CHUNK_CONDEMNED;
        fresh = fresh || !was_live(m, ids[i]);
    }
    enum hf_status expected = condemned  ? HF_CONFLICT
                              : !fresh   ? HF_OK
                              : m->split ? HF_MISMATCH
                              : old      ? HF_EXPIRED
                                         : HF_OK;
    for (size_t i = 0; i < count && expected == HF_OK; i++)
        if (!was_live(m, ids[i]))
            m->keys[ids[i]] =
                (struct model_key){ .state = CHUNK_LIVE,
                                    .sequence = ++m->sequences[ids[i] % WRITERS] };
    apply(m, &op, expected);
}

static void commit(struct model *m)
{
    int ids[4], target = 60 + draw(m, 60);
    bool old, live = true;
    struct view keys[4];
    size_t count = draw_ids(m, 60, ids);
    if (target >= 90)
        for (size_t i = 0; i < count; i++)
            ids[i] = ids[i] / 2 + 60;
    struct catalog_op op = { .kind = CATALOG_COMMIT, .keys = keys, .target = chunk_of(target) };
    op.drawn = draw_name(m, &old);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++)
            if (ids[k] == ids[i])
                return;
        keys[op.key_count++] = key_of(ids[i]);
        live = live && m->keys[ids[i]].state == CHUNK_LIVE;
    }
    enum hf_status expected = was_live(m, target)                                 ? HF_OK
                              : m->keys[target].state == CHUNK_CONDEMNED || !live ? HF_CONFLICT
                              : old                                               ? HF_EXPIRED
                                                                                  : HF_OK;
    if (expected == HF_OK && !was_live(m, target)) {
        int group = new_group(m, target);
        for (size_t i = 0; i < count; i++) {
            m->keys[ids[i]].state = CHUNK_TOMBSTONE;
            m->keys[ids[i]].group = group;
        }
        m->keys[target] = (struct model_key){ .state = CHUNK_LIVE };
    }
    apply(m, &op, expected);
}

static void blame(struct model *m, const int *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct model_key *key = &m->keys[ids[i]];
        if (key->state != CHUNK_LIVE)
            continue;
        key->tries++;
        key->quarantined = key->quarantined || key->tries >= 3;
    }
}

static void condemn(struct model *m)
{
    int id = draw(m, KEYS), ids[4];
    struct view key = key_of(id), sources[4];
    enum condemned answer = CONDEMN_DONE, expected = CONDEMN_DONE;
    size_t count = draw_ids(m, 60, ids);
    for (size_t i = 0; i < count; i++)
        sources[i] = key_of(ids[i]);
    struct catalog_op op = { .kind = CATALOG_CONDEMN,
                             .keys = &key,
                             .key_count = 1,
                             .blame =
                                 draw(m, 2) ? HF_COMPACT_BLAME_GROUP : HF_COMPACT_BLAME_NOBODY,
                             .sources = sources,
                             .source_count = count,
                             .ret_condemned = &answer };
    if (was_live(m, id)) {
        expected = CONDEMN_HAPPENED;
    } else if (m->keys[id].state == CHUNK_UNKNOWN) {
        m->keys[id] = (struct model_key){ .state = CHUNK_CONDEMNED, .group = new_group(m, -1) };
        if (op.blame == HF_COMPACT_BLAME_GROUP)
            blame(m, ids, count);
    }
    apply(m, &op, HF_OK);
    assert_int_equal(answer, expected);
}

static void retire(struct model *m)
{
    struct catalog_op op = { .kind = CATALOG_RETIRE, .cutoff_ms = draw(m, 40000) };
    int group = -1;
    size_t moved = 0;
    for (int i = 0; i < KEYS; i++) {
        if (m->keys[i].state != CHUNK_LIVE || i * 1000 + 500 >= op.cutoff_ms)
            continue;
        group = group < 0 ? new_group(m, -1) : group;
        m->groups[group].by_age = true;
        m->keys[i].state = CHUNK_TOMBSTONE;
        m->keys[i].group = group;
        moved++;
    }
    apply(m, &op, HF_OK);
    assert_int_equal(op.moved, moved);
}

static void move_keys(struct model *m, int from, enum chunk_state state, int to,
                      enum chunk_state next)
{
    for (int i = 0; i < KEYS; i++)
        if (m->keys[i].state == state && m->keys[i].group == from) {
            m->keys[i].state = next;
            m->keys[i].group = to;
        }
}

static bool is_deleting(enum chunk_state state)
{
    return state == CHUNK_RETIRED || state == CHUNK_CONDEMNED;
}

static void maintain(struct model *m)
{
    int done_id = draw(m, KEYS), gone_id = draw(m, KEYS);
    struct view done = key_of(done_id), gone = key_of(gone_id);
    struct catalog_op op = { .kind = CATALOG_MAINTAIN,
                             .done = &done,
                             .done_count = 1,
                             .gone = &gone,
                             .gone_count = 1,
                             .restamp = true };
    size_t moved = 0;
    for (int g = 0, end = m->group_count; g < end; g++) {
        size_t count = count_group(m, g, CHUNK_TOMBSTONE);
        if (count == 0 || !has_passed(m, m->groups[g].since, 1000))
            continue;
        move_keys(m, g, CHUNK_TOMBSTONE, new_group(m, -1), CHUNK_RETIRED);
        moved += count;
    }
    if (is_deleting(m->keys[done_id].state))
        m->groups[m->keys[done_id].group].done = true;
    const struct model_group *group = &m->groups[m->keys[gone_id].group];
    if (is_deleting(m->keys[gone_id].state) && group->done &&
        has_passed(m, group->since, 100000))
        move_keys(m, m->keys[gone_id].group, m->keys[gone_id].state, 0, CHUNK_UNKNOWN);
    apply(m, &op, HF_OK);
    assert_int_equal(op.moved, moved);
}

/* The last group that was retired by age and is not deleting. */
static int last_retirement(const struct model *m)
{
    int group = m->group_count - 1;
    while (group >= 0 && !(m->groups[group].by_age && count_group(m, group, CHUNK_TOMBSTONE)))
        group--;
    return group;
}

static void undelete(struct model *m)
{
    int id = draw(m, KEYS);
    struct view key = key_of(id);
    struct catalog_op op = { .kind = CATALOG_UNDELETE, .keys = &key, .key_count = 1 };
    enum hf_status expected = HF_OK;
    if (m->keys[id].state == CHUNK_TOMBSTONE) {
        int group = m->keys[id].group, into = m->groups[group].into;
        if (m->split || m->groups[group].undone ||
            (into >= 0 && m->keys[into].state != CHUNK_LIVE)) {
            expected = HF_CONFLICT;
        } else if (into >= 0) {
            move_keys(m, group, CHUNK_TOMBSTONE, 0, CHUNK_LIVE);
            m->keys[into].state = CHUNK_TOMBSTONE;
            m->keys[into].group = new_group(m, -1);
            m->groups[m->keys[into].group].undone = true;
        } else if (m->groups[group].by_age && group != last_retirement(m)) {
            expected = HF_CONFLICT;
        } else if (m->groups[group].by_age) {
            move_keys(m, group, CHUNK_TOMBSTONE, 0, CHUNK_LIVE);
        } else {
            m->keys[id].state = CHUNK_LIVE;
        }
    } else if (m->keys[id].state != CHUNK_LIVE) {
        expected = HF_NOT_FOUND;
    }
    apply(m, &op, expected);
}

static void quarantine(struct model *m)
{
    int id = draw(m, KEYS);
    struct view key = key_of(id);
    bool back = draw(m, 2);
    struct catalog_op op = { .kind = CATALOG_QUARANTINE,
                             .keys = &key,
                             .key_count = 1,
                             .reason = back ? VIEW("") : VIEW("for a test") };
    bool live = m->keys[id].state == CHUNK_LIVE;
    if (live) {
        m->keys[id].quarantined = !back;
        m->keys[id].tries = back ? 0 : m->keys[id].tries;
    }
    apply(m, &op, live ? HF_OK : HF_NOT_FOUND);
}

static void split(struct model *m)
{
    static const char *const names[CATALOG_CHILDREN] = { "c0", "c1", "c2", "c3",
                                                         "c4", "c5", "c6", "c7" };
    struct catalog_op op = { .kind = CATALOG_SPLIT,
                             .live_hash = catalog_live_hash(m->catalog),
                             .drawn = { m->now * 1000000 } };
    if (m->split || draw(m, 40) > 0)
        return;
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        op.children[i] = view_of(names[i]);
    for (int i = 0; i < KEYS; i++)
        if (m->keys[i].state == CHUNK_LIVE)
            m->keys[i].state = CHUNK_MOVED;
    m->split = true;
    apply(m, &op, HF_OK);
}

/* ---- Comparing ----------------------------------------------------------------------- */

static void compare_key(const struct model *m, int id)
{
    const struct model_key *key = &m->keys[id];
    const struct chunk *chunk = catalog_find(m->catalog, key_of(id));
    assert_string_equal(chunk_state_name(catalog_state(m->catalog, key_of(id))),
                        chunk_state_name(key->state));
    assert_int_equal(chunk != NULL, key->state == CHUNK_LIVE);
    if (!chunk)
        return;
    assert_int_equal(chunk->tries, key->tries);
    assert_int_equal(chunk->quarantine.size > 0, key->quarantined);
    assert_int_equal(chunk->sequence, key->sequence);
    assert_int_equal(chunk->min_ms, id * 1000);
}

static void compare(const struct model *m)
{
    size_t counts[CHUNK_MOVED + 1] = { 0 }, graves = 0, removals = 0;
    for (int i = 0; i < KEYS; i++) {
        compare_key(m, i);
        counts[m->keys[i].state]++;
    }
    for (int g = 0; g < m->group_count; g++) {
        graves += count_group(m, g, CHUNK_TOMBSTONE) > 0;
        removals += count_group(m, g, CHUNK_RETIRED) + count_group(m, g, CHUNK_CONDEMNED) > 0;
    }
    assert_int_equal(m->catalog->live_count, counts[CHUNK_LIVE]);
    assert_int_equal(m->catalog->reference_count, counts[CHUNK_MOVED]);
    assert_int_equal(m->catalog->grave_count, graves);
    assert_int_equal(m->catalog->removal_count, removals);
    for (size_t i = 0; i < m->catalog->writer_count; i++)
        for (int w = 0; w < WRITERS; w++)
            if (view_equal(chunk_of(w).writer, m->catalog->writers[i].name))
                assert_int_equal(m->catalog->writers[i].sequence, m->sequences[w]);
}

static void step(struct model *m)
{
    static void (*const moves[])(struct model *) = {
        add,      add,      add,      add,      commit,  commit,     commit, commit, commit,
        maintain, maintain, undelete, undelete, condemn, quarantine, retire, split,
    };
    m->now += draw(m, 4) ? draw(m, 300) : draw(m, 20000);
    int move = draw(m, (int)(sizeof moves / sizeof moves[0]));
    if (moves[move] == retire && draw(m, 4) > 0)
        return;
    moves[move](m);
    compare(m);
    if (draw(m, 10) == 0) {
        /* Seen so late that nothing is proven by watching, which the model knows not. */
        struct catalog *read = catalog_kit_reload(m->catalog, NULL, 1000000000);
        catalog_free(m->catalog);
        m->catalog = read;
        compare(m);
    }
}

static void agrees_with_the_model(void **state)
{
    (void)state;
    struct model *m = malloc(sizeof *m);
    assert_non_null(m);
    for (uint64_t seed = 1; seed <= 60; seed++) {
        *m = (struct model){ .prng = prng_seeded(seed), .now = 100000 };
        m->catalog = kit_catalog();
        for (int i = 0; i < 200; i++)
            step(m);
        catalog_free(m->catalog);
    }
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("random operations end as a simple model says, in every step",
           agrees_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
