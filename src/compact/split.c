/* split.c: a full catalog becomes the parent of new ones.
 *
 * The children are whole and in the store before anybody can learn of them: their names are
 * random, and only the parent's swap tells them. It is refused when a live entry changed since
 * the children were made of it; then they are made anew, under new names. Children whose swap
 * was certainly refused mean nothing for ever and are deleted; after UNSURE they stay, since
 * the swap may still land. What a crash leaves is found by fsck. */
#include "base/rule.h"
#include "compact/shelf.h"

#include <stdlib.h>

#define PARTITION_DIGITS 32

/* A child's put without an answer is made again so often, and so long after each other at most. */
#define PUT_TRIES_MAX 12
#define PUT_BACKOFF   SPAN_MS(10)

/* What a split writes, made of the parent as it once was. */
struct brood {
    struct env *env;
    bool already;           /* the parent has children: there is nothing to do */
    struct hf_error error;  /* of making them */
    struct mono_time drawn; /* their names */
    char names[CATALOG_CHILDREN][PARTITION_DIGITS + 1];
    char keys[CATALOG_CHILDREN][KEY_BYTES_MAX + 1];
    struct buffer texts[CATALOG_CHILDREN];
    enum split_by split_by;
    uint64_t live_hash;
};

/* ---- Making the children ------------------------------------------------------------- */

/* By hour, so that what is merged together stays together, unless one hour has more than half of
 * the entries: then that one would be full again at once. Whether any hour has so many takes one
 * candidate: what remains when different ones are struck off in pairs. */
static enum split_by choose_split(const struct catalog *catalog)
{
    int64_t candidate = 0;
    size_t lead = 0, count = 0;
    for (size_t i = 0; i < catalog->live_count; i++) {
        int64_t hour = hour_of_ms(catalog->live[i].min_ms);
        if (lead == 0)
            candidate = hour;
        lead = hour == candidate ? lead + 1 : lead - 1;
    }
    for (size_t i = 0; i < catalog->live_count; i++)
        count += hour_of_ms(catalog->live[i].min_ms) == candidate;
    return count > catalog->live_count / 2 ? SPLIT_BY_KEY : SPLIT_BY_HOUR;
}

/* Encodes one child, with the entries that lead to it. */
static enum hf_status make_child(struct brood *brood, const struct catalog *parent,
                                 unsigned child, struct hf_error *error)
{
    struct catalog *catalog;
    char nonce[NONCE_SIZE + 1];
    enum hf_status status = catalog_new(view_of(brood->names[child]), parent->partition,
                                        parent->depth + 1, &parent->settings, &catalog, error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < parent->live_count && status == HF_OK; i++) {
        const struct chunk *chunk = &parent->live[i];
        if (split_route(parent->partition, brood->split_by, chunk->key, chunk->min_ms) == child)
            status = catalog_adopt(catalog, chunk, error);
    }
    if (status == HF_OK)
        status = catalog_inherit(catalog, parent, error);
    env_random_hex(brood->env, NONCE_SIZE, nonce);
    if (status == HF_OK && !catalog_encode(catalog, view_of(nonce), &brood->texts[child]))
        status = error_no_memory(error);
    catalog_free(catalog);
    return status;
}

static void draw_names(struct brood *brood)
{
    brood->drawn = env_now(brood->env);
    for (size_t i = 0; i < CATALOG_CHILDREN; i++) {
        env_random_hex(brood->env, PARTITION_DIGITS, brood->names[i]);
        layout_partition_key(view_of(brood->names[i]), LAYOUT_CATALOG, brood->keys[i]);
        buffer_clear(&brood->texts[i]);
    }
}

static void make_children(void *argument, const struct catalog *parent,
                          const struct evidence *evidence)
{
    (void)evidence;
    struct brood *brood = argument;
    brood->already = parent->child_count > 0;
    if (brood->already)
        return;
    if (parent->depth >= SHELF_DEPTH_MAX) {
        error_set(&brood->error, HF_UNAVAILABLE,
                  "the catalog of %.*s is full, and too deep to be split",
                  VIEW_ARGS(parent->partition));
        return;
    }
    draw_names(brood);
    brood->split_by = choose_split(parent);
    brood->live_hash = catalog_live_hash(parent);
    enum hf_status status = HF_OK;
    for (unsigned i = 0; i < CATALOG_CHILDREN && status == HF_OK; i++)
        status = make_child(brood, parent, i, &brood->error);
}

/* ---- Writing them -------------------------------------------------------------------- */

/* A put was refused: by an earlier try of our own that landed, since nobody else draws these names,
 * or since a write was under way, which may have come to nothing. */
static enum hf_status look_for_child(struct store *store, const struct put_call *put,
                                     struct hf_error *error)
{
    struct buffer bytes = BUFFER_INIT(CATALOG_BYTES_READ_MAX);
    struct get_call call = { .key = put->key, .body = &bytes };
    enum hf_status status = store_get(store, &call);
    if (status == HF_NOT_FOUND)
        status = error_set(&call.error, HF_UNAVAILABLE, "the store refused to write it");
    else if (status == HF_OK && !view_equal(buffer_view(&bytes), put->body))
        status = error_set(&call.error, HF_CONFLICT, "there is another of that name");
    buffer_release(&bytes);
    *error = call.error;
    return status;
}

/* Puts those that are not there yet. */
static size_t put_round(struct store *store, struct put_call *puts, bool *there)
{
    struct put_call calls[CATALOG_CHILDREN];
    size_t index[CATALOG_CHILDREN], count = 0, missing = 0;
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        if (!there[i]) {
            index[count] = i;
            calls[count++] = puts[i];
        }
    store_put_many(store, calls, count);
    for (size_t i = 0; i < count; i++) {
        enum hf_status status = calls[i].error.status;
        puts[index[i]].error = calls[i].error;
        if (status == HF_CONFLICT)
            status = look_for_child(store, &puts[index[i]], &puts[index[i]].error);
        there[index[i]] = status == HF_OK;
        missing += !there[index[i]];
    }
    return missing;
}

static enum hf_status first_failure(const struct put_call *puts, const bool *there,
                                    struct hf_error *error)
{
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        if (!there[i]) {
            *error = puts[i].error;
            error_prefix(error, "a new catalog");
            return error->status;
        }
    return HF_OK;
}

static bool worth_another_round(const struct put_call *puts, const bool *there)
{
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        if (!there[i] && request_settled(puts[i].error.status))
            return false;
    return true;
}

static enum hf_status put_children(struct shelf *shelf, struct brood *brood,
                                   struct hf_error *error)
{
    struct put_call puts[CATALOG_CHILDREN];
    bool there[CATALOG_CHILDREN] = { false };
    struct span backoff = PUT_BACKOFF;
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        puts[i] = (struct put_call){ .key = view_of(brood->keys[i]),
                                     .body = buffer_view(&brood->texts[i]),
                                     .condition = if_absent(),
                                     .quiet = true };
    size_t missing = put_round(shelf->store, puts, there);
    for (int tries = 1; missing > 0 && tries < PUT_TRIES_MAX; tries++) {
        if (!worth_another_round(puts, there))
            break;
        env_sleep(shelf->env, env_jitter(shelf->env, backoff));
        backoff.us *= 2;
        missing = put_round(shelf->store, puts, there);
    }
    return first_failure(puts, there, error);
}

/* They mean nothing and never will. Best effort: fsck finds what stays. */
static void delete_children(struct shelf *shelf, struct brood *brood)
{
    struct delete_call calls[CATALOG_CHILDREN];
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        calls[i] = (struct delete_call){ .key = view_of(brood->keys[i]) };
    store_delete_many(shelf->store, calls, CATALOG_CHILDREN);
}

/* ---- The swap ------------------------------------------------------------------------ */

static enum hf_status swap_parent(struct slot *slot, const struct brood *brood,
                                  struct hf_error *error)
{
    struct catalog_op op = { .kind = CATALOG_SPLIT,
                             .split_by = brood->split_by,
                             .live_hash = brood->live_hash,
                             .drawn = brood->drawn };
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        op.children[i] = view_of(brood->names[i]);
    enum hf_status status = slot_apply(slot, &op, (struct mono_time){ 0 });
    *error = op.error;
    return status;
}

/* Whether the children that the parent is known to have are these. It has them for ever. */
static bool are_ours(struct slot *slot, const struct brood *brood)
{
    env_mutex_lock(&slot->shelf->mutex);
    bool ours = slot->route.child_count > 0 &&
                view_equal(view_of(slot->route.children[0]), view_of(brood->names[0]));
    env_mutex_unlock(&slot->shelf->mutex);
    return ours;
}

/* One try. CONFLICT: entries changed meanwhile. MISMATCH: somebody else has split it. */
static enum hf_status split_once(struct slot *slot, struct brood *brood, struct hf_error *error)
{
    struct shelf *shelf = slot->shelf;
    error_clear(&brood->error);
    enum hf_status status = slot_show(slot, make_children, brood, error);
    if (status != HF_OK || brood->already)
        return status;
    if (brood->error.status != HF_OK) {
        *error = brood->error;
        return error->status;
    }
    if (!RULE(SPLIT_SWAPS_LAST)) {
        status = swap_parent(slot, brood, error);
        return status == HF_OK ? put_children(shelf, brood, error) : status;
    }
    status = put_children(shelf, brood, error);
    if (status == HF_UNSURE) /* the parent was not asked, and will not be */
        status = error->status = HF_UNAVAILABLE;
    else if (status == HF_OK)
        status = swap_parent(slot, brood, error);
    if (status != HF_OK && status != HF_UNSURE && !are_ours(slot, brood))
        delete_children(shelf, brood);
    return status;
}

static bool worth_a_new_brood(enum hf_status status)
{
    return status == HF_CONFLICT || status == HF_EXPIRED;
}

enum hf_status slot_split(struct slot *slot, struct hf_error *error)
{
    struct brood *brood = calloc(1, sizeof *brood);
    if (!brood)
        return error_no_memory(error);
    brood->env = slot->shelf->env;
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        brood->texts[i] = BUFFER_INIT(CATALOG_BYTES_READ_MAX);
    enum hf_status status = split_once(slot, brood, error);
    for (int tries = 1; worth_a_new_brood(status) && tries < SHELF_SPLIT_TRIES; tries++)
        status = split_once(slot, brood, error);
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        buffer_release(&brood->texts[i]);
    free(brood);
    if (status == HF_MISMATCH)
        return error_clear(error);
    if (status == HF_CONFLICT || status == HF_EXPIRED)
        return error_set(error, HF_UNAVAILABLE,
                         "the catalog of %s changes too fast to be split", slot->partition);
    return status;
}
