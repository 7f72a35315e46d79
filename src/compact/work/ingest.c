/* SPDX-License-Identifier: Apache-2.0 */
/* ingest.c: puts files as objects and adds them to catalogs as chunks. A put or an add may have
 * happened although its reply was lost, a split may intervene, and two clients may add the same
 * file. Still, each row must be added exactly once. */
#include "base/check.h"
#include "compact/work/ingest_inside.h"
#include "store/retry.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The files of a batch are surveyed. Then, catalog by catalog, each file is put under a new name,
 * and all are added in one swap. If the add is refused because of a split, or because the names are
 * too old, the old names are condemned before the files are put under new ones. After that, no
 * earlier attempt of the add can take effect late.
 *
 * A file's identity, from its bytes or its owner's id, selects its catalog. The swap that adds the
 * file checks that the identity is new. The ancestors of that catalog, which were split and accept
 * no more files, are checked first. */

/* How many names are tried for a file. */
#define ROUNDS_MAX 16

#define PUT_TRIES_MAX 6
#define ADD_TRIES_MAX 8
#define BACKOFF_FIRST SPAN_MS(20)

/* The interval at which the catalog is read while too many chunks are waiting. */
#define POLL SPAN_MS(500)

/* The estimated size of an entry. With it, files are seldom put for a catalog that has no room. */
#define ENTRY_BYTES 512

/* ---- Results ------------------------------------------------------------------------- */

static void finish_file(struct ingest *ingest, struct ingest_item *item)
{
    check(!item->settled);
    item->settled = true;
    ingest->files_done++;
}

/* Adds the path to the error unless it is already there. */
static void name_path(struct hf_error *error, const char *path)
{
    struct view name = view_first(view_of(path), ERROR_PATH_MAX);
    if (!memmem(error->why, strlen(error->why), name.data, name.size))
        error_about(error, path);
}

void ingest_fail(struct ingest *ingest, struct ingest_item *item, const struct hf_error *error)
{
    item->file->error = *error;
    name_path(&item->file->error, item->file->path);
    finish_file(ingest, item);
}

/* Removes the chosen files that are already recorded in a catalog. */
static void finish_known(struct ingest *ingest)
{
    size_t kept = 0;
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        struct ingest_item *item = ingest->chosen[i];
        if (!ingest->known[i]) {
            ingest->file_ids[kept] = view_of(item->file_id);
            ingest->known[kept] = false;
            ingest->chosen[kept++] = item;
            continue;
        }
        item->file->already = true;
        item->file->key[0] = '\0';
        finish_file(ingest, item);
    }
    ingest->chosen_count = kept;
}

/* Removes the chosen files that contain records at or below the floor. */
static void fail_too_old(struct ingest *ingest)
{
    size_t kept = 0;
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        struct ingest_item *item = ingest->chosen[i];
        if (item->too_old.status == HF_OK)
            ingest->chosen[kept++] = item;
        else
            ingest_fail(ingest, item, &item->too_old);
    }
    ingest->chosen_count = kept;
}

void ingest_fail_chosen(struct ingest *ingest, const struct hf_error *error)
{
    for (size_t i = 0; i < ingest->chosen_count; i++)
        ingest_fail(ingest, ingest->chosen[i], error);
    ingest->chosen_count = 0;
}

enum hf_status ingest_stopped(struct hf_error *error)
{
    return error_set(error, HF_CANCELLED, "stopped before it was ingested");
}

bool ingest_goes_on(struct ingest *ingest, uint64_t bytes_under_way)
{
    const struct ingest_options *options = ingest->options;
    if (options->go_on && !ingest->stopped)
        ingest->stopped = !options->go_on(options->argument, ingest->files_done,
                                          ingest->bytes_done + bytes_under_way);
    return !ingest->stopped;
}

/* ---- Room ---------------------------------------------------------------------------- */

/* What a catalog can accept now. */
struct catalog_room {
    struct ingest *ingest; /* its chosen files may be known already */
    bool has_children;
    bool full;
    uint64_t pressure;
    size_t waiting;     /* to be merged */
    size_t dead;        /* to be deleted */
    size_t count;       /* chunks that may be added now */
    bool kinds_known;   /* of the keys of all chunks, if there are any: */
    unsigned key_kinds; /* (merge.h) */
};

static size_t smaller_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void look_for_room(void *argument, const struct catalog *catalog,
                          const struct evidence *evidence)
{
    struct catalog_room *room = argument;
    struct ingest *ingest = room->ingest;
    (void)evidence;
    catalog_check_dropping(catalog, &ingest->refused);
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        struct ingest_item *item = ingest->chosen[i];
        ingest->known[i] = catalog_knows_file(catalog, ingest->file_ids[i]);
        if (!ingest->adopts || item->examined) /* otherwise its times are not known yet */
            catalog_check_floor(catalog, &item->chunk, &item->too_old);
    }
    *room =
        (struct catalog_room){ .ingest = ingest,
                               .has_children = catalog->child_count > 0,
                               .full = catalog->live_count >= CATALOG_LIVE_MAX,
                               .pressure = ingest->adopts ? 100 * catalog_is_clogged(catalog)
                                                          : catalog_pressure(catalog),
                               .dead = catalog->dead_count };
    room->kinds_known = true;
    for (size_t i = 0; i < catalog->live_count; i++) {
        const struct chunk *chunk = &catalog->live[i];
        if (chunk->quarantine.size > 0)
            continue;
        room->waiting += chunk->level == 0;
        room->kinds_known = room->kinds_known && chunk->key_kinds != 0;
        room->key_kinds |= chunk->key_kinds;
    }
    uint64_t backlog = ingest->adopts ? UINT64_MAX : catalog->settings.backlog_max;
    size_t most = room->full ? 0 : CATALOG_LIVE_MAX - catalog->live_count;
    if (backlog > room->waiting && backlog - room->waiting < most)
        most = (size_t)(backlog - room->waiting);
    size_t bytes =
        CATALOG_LIVE_BYTES_MAX - smaller_size(catalog->live_bytes, CATALOG_LIVE_BYTES_MAX);
    room->count = smaller_size(most, bytes / ENTRY_BYTES);
    if (room->count == 0)
        room->count = 1; /* the catalog decides whether one more fits */
}

/* Whether all of the chosen files are already recorded in the catalog. */
static bool are_all_known(const struct ingest *ingest)
{
    for (size_t i = 0; i < ingest->chosen_count; i++)
        if (!ingest->known[i])
            return false;
    return true;
}

/* Waits, if the options allow it, until chunks may be added. Files that are already known need no
 * room. */
static enum hf_status find_room(struct ingest *ingest, struct catalog_ref *ref,
                                struct catalog_room *room, struct hf_error *error)
{
    struct env *env = ingest->tree->env;
    struct mono_time until = ingest->options->until;
    *room = (struct catalog_room){ .ingest = ingest };
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        ingest->file_ids[i] = view_of(ingest->chosen[i]->file_id);
        ingest->known[i] = false;
    }
    for (;;) {
        ingest->looked_at = env_now(env);
        enum hf_status status = catalog_ref_show(ref, look_for_room, room, error);
        if (status == HF_OK && ingest->refused.status != HF_OK)
            return error_tell(error, ingest->refused.status, &ingest->refused);
        if (status != HF_OK || room->has_children || room->pressure < 100 ||
            are_all_known(ingest))
            return status;
        if (!ingest_goes_on(ingest, 0))
            return ingest_stopped(error);
        struct mono_time now = env_now(env);
        if (!mono_before(now, until))
            return error_set(error, HF_UNAVAILABLE,
                             "%zu chunks are waiting to be merged and %zu to be deleted; "
                             "ingest again when there are fewer",
                             room->waiting, room->dead);
        struct mono_time next = mono_add(now, SPAN_MS(1));
        next = mono_add(next, env_jitter(env, POLL));
        env_sleep_until(env, mono_earlier(next, until));
    }
}

/* ---- Putting ------------------------------------------------------------------------- */

void ingest_note_answer(struct ingest *ingest, enum hf_status status, struct mono_time begun)
{
    if (retry_is_answered(status))
        ingest->silent = (struct mono_time){ 0 };
    else if (ingest->silent.us == 0)
        ingest->silent = begun;
}

/* There is one timeout for all files; otherwise ingest would wait for an unresponsive store once
 * per file. */
bool ingest_is_given_up(const struct ingest *ingest, struct hf_error *error)
{
    if (ingest->silent.us == 0)
        return false;
    struct span silence = mono_since(env_now(ingest->tree->env), ingest->silent);
    if (silence.us < ingest->patience.us)
        return false;
    error_set(error, HF_UNAVAILABLE, "not tried: the store has not answered for %lld s",
              (long long)(silence.us / 1000000));
    return true;
}

static bool put_goes_on(void *argument, uint64_t done, uint64_t total)
{
    (void)total;
    return ingest_goes_on(argument, done);
}

static bool may_put_again(void *argument, uint64_t done, uint64_t total)
{
    struct hf_error ignored;
    (void)done;
    (void)total;
    return !ingest_is_given_up(argument, &ignored) && ingest_goes_on(argument, 0);
}

/* Nobody else generates this name, so if the object exists, it is ours. This is checked even if the
 * put was refused as a conflict, because a store may refuse a put while another write is in
 * progress, and then no object exists. The check is cheaper than another put. */
static bool has_landed(struct ingest *ingest, const struct ingest_item *item)
{
    struct buffer body = BUFFER_INIT(1);
    struct get_call get = { .key = view_of(item->file->key), .length = 1, .body = &body };
    enum hf_status status = store_get(ingest->tree->store, &get);
    buffer_release(&body);
    return status == HF_OK && get.info.size == item->chunk.size;
}

static enum hf_status put_chunk_once(struct ingest *ingest, struct ingest_item *item, int fd,
                                     enum condition_kind condition, struct hf_error *error)
{
    struct progress progress = { put_goes_on, ingest };
    struct put_call put = { .key = view_of(item->file->key), .quiet = true };
    put.condition.kind = condition;
    enum hf_status status = store_put_file(ingest->tree->store, &put, fd, &progress);
    *error = put.error;
    if (status != HF_CONFLICT && status != HF_UNSURE)
        return status;
    if (has_landed(ingest, item))
        return error_clear(error);
    return status == HF_UNSURE
               ? status
               : error_set(
                     error, HF_UNSURE,
                     "the store refused the put although no object with this name exists");
}

/* *ret_maybe: an unanswered attempt may have taken effect, or may still take effect. */
static enum hf_status put_tries(struct ingest *ingest, struct ingest_item *item, int fd,
                                bool *ret_maybe, struct hf_error *error)
{
    enum condition_kind condition = CONDITION_ABSENT;
    const struct progress progress = { may_put_again, ingest };
    struct retry retry = { .store = ingest->tree->store,
                           .pause = BACKOFF_FIRST,
                           .left = PUT_TRIES_MAX - 1,
                           .progress = &progress };
    enum hf_status status;
    bool again;
    do {
        struct mono_time begun = env_now(ingest->tree->env);
        status = put_chunk_once(ingest, item, fd, condition, error);
        ingest_note_answer(ingest, status, begun);
        *ret_maybe = *ret_maybe || status == HF_UNSURE;
        /* If the file is too large for a conditional put, the random name alone must prevent
         * collisions. */
        again = status == HF_UNSUPPORTED && condition == CONDITION_ABSENT;
        if (again)
            condition = CONDITION_ALWAYS;
    } while (again || retry_after(&retry, status));
    return status;
}

/* The bytes that are put must be the bytes that were surveyed. This is checked before and after the
 * put, because the file may change at any time. */
static enum hf_status check_unchanged(const struct ingest_item *item, int fd,
                                      struct hf_error *error)
{
    struct stat now;
    const struct stat *seen = &item->seen;
    if (fstat(fd, &now) == 0 && now.st_dev == seen->st_dev && now.st_ino == seen->st_ino &&
        now.st_size == seen->st_size && now.st_mtim.tv_sec == seen->st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == seen->st_mtim.tv_nsec &&
        now.st_ctim.tv_sec == seen->st_ctim.tv_sec &&
        now.st_ctim.tv_nsec == seen->st_ctim.tv_nsec)
        return HF_OK;
    return error_set(error, HF_UNAVAILABLE, "the file changed while it was being read");
}

/* Puts the file under a new name. *ret_maybe: unless OK, an object of that name may exist. */
static enum hf_status put_new_chunk(struct ingest *ingest, struct ingest_item *item,
                                    bool *ret_maybe, struct hf_error *error)
{
    *ret_maybe = false;
    if (!ingest_goes_on(ingest, 0))
        return ingest_stopped(error);
    int fd = open(item->file->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_cannot_open(error, errno, item->file->path);
    struct compact_settings settings = ingest->settings;
    settings.coding = item->coding; /* the name says how its object is compressed */
    struct chunk_key_parts parts = { .partition = view_of(item->home),
                                     .ms = item->chunk.min_ms,
                                     .settings = &settings };
    enum hf_status status = check_unchanged(item, fd, error);
    if (status == HF_OK)
        status =
            chunk_key_draw(ingest->tree->env, &parts, item->file->key, &item->drawn, error);
    if (status == HF_OK) {
        item->drawn = mono_earlier(item->drawn, ingest->looked_at);
        item->chunk.key = view_of(item->file->key);
        status = put_tries(ingest, item, fd, ret_maybe, error);
    }
    if (status == HF_OK) {
        *ret_maybe = true;
        status = check_unchanged(item, fd, error);
    }
    close(fd);
    if (status == HF_OK)
        ingest->bytes_done += item->chunk.size;
    if (status == HF_UNSURE) /* the put is unsure, but the file was definitely not added */
        status = error->status = HF_UNAVAILABLE;
    return status;
}

/* ---- Condemning ---------------------------------------------------------------------- */

/* Condemns the keys of the chosen files. If OK, the results are in ingest->condemned. */
static enum hf_status condemn_chosen(struct ingest *ingest, struct catalog_ref *ref,
                                     struct hf_error *error)
{
    for (size_t i = 0; i < ingest->chosen_count; i++)
        ingest->keys[i] = view_of(ingest->chosen[i]->file->key);
    struct catalog_op op = { .kind = CATALOG_CONDEMN,
                             .keys = ingest->keys,
                             .key_count = ingest->chosen_count,
                             .ret_condemned = ingest->condemned };
    struct mono_time deadline = mono_add(env_now(ingest->tree->env), ingest->patience);
    enum hf_status status = catalog_ref_apply(ref, &op, deadline);
    *error = op.error;
    return status;
}

/* Condemns the object of a file that was not added, so that a worker deletes it. Best effort: fsck
 * finds the rest. */
static void condemn_key(struct ingest *ingest, struct catalog_ref *ref,
                        const struct ingest_item *item)
{
    struct view key = view_of(item->file->key);
    struct catalog_op op = { .kind = CATALOG_CONDEMN, .keys = &key, .key_count = 1 };
    struct mono_time begun = env_now(ingest->tree->env);
    ingest_note_answer(ingest, catalog_ref_apply(ref, &op, mono_add(begun, ingest->patience)),
                       begun);
}

/* ---- Adding -------------------------------------------------------------------------- */

/* Retries the add until it is answered. If an earlier attempt has landed, the catalog shows it.
 * *ret_maybe: unless OK, an unanswered attempt may have taken effect, or may take effect until the
 * next swap. */
static enum hf_status add_tries(struct ingest *ingest, struct catalog_ref *ref,
                                struct catalog_op *op, bool *ret_maybe)
{
    struct env *env = ingest->tree->env;
    struct mono_time deadline = mono_add(env_now(env), ingest->patience);
    struct retry retry = { .store = ingest->tree->store,
                           .pause = BACKOFF_FIRST,
                           .left = ADD_TRIES_MAX - 1,
                           .until = deadline };
    enum hf_status status;
    *ret_maybe = false;
    do {
        status = catalog_ref_apply(ref, op, deadline);
        *ret_maybe = *ret_maybe || status == HF_UNSURE;
    } while (!op->full && retry_after(&retry, status));
    return status;
}

/* How an add failed. */
struct refusal {
    struct hf_error why;
    bool again; /* it may succeed under other names */
    bool maybe; /* it may have happened, or may happen until the next swap */
};

/* Condemns the keys of the chosen files. The result shows which files were added, and ensures that
 * the others never will be under these names. The others are tried again if new names can help. */
static void learn_what_happened(struct ingest *ingest, struct catalog_ref *ref,
                                const struct refusal *refusal)
{
    struct hf_error unanswered, why = refusal->why;
    int64_t age_us = mono_since(env_now(ingest->tree->env), ingest->chosen[0]->drawn).us;
    /* A name that was live, then merged, deleted and dropped is unknown again. So once D has passed
     * since the name was generated, the result of the condemn could be wrong. */
    bool answered = condemn_chosen(ingest, ref, &unanswered) == HF_OK &&
                    age_us < ingest->settings.late_bound_ms * 1000;
    if (!answered && refusal->maybe)
        why.status = HF_UNSURE;
    else if (why.status == HF_UNSURE || refusal->again)
        why.status = HF_UNAVAILABLE;
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        if (answered && ingest->condemned[i] == CONDEMN_HAPPENED)
            finish_file(ingest, ingest->chosen[i]);
        else if (!answered || !refusal->again)
            ingest_fail(ingest, ingest->chosen[i], &why);
    }
}

/* After a successful add: finishes the files. If another client added the same file in the
 * meantime, our object is not needed and is condemned. */
static void give_way(struct ingest *ingest, struct catalog_ref *ref)
{
    struct hf_error ignored;
    size_t count = 0;
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        if (ingest->known[i])
            ingest->chosen[count++] = ingest->chosen[i];
        else
            finish_file(ingest, ingest->chosen[i]);
    }
    ingest->chosen_count = count;
    if (count > 0)
        condemn_chosen(ingest, ref, &ignored); /* if it fails, fsck finds the object */
    for (size_t i = 0; i < count; i++)
        ingest->known[i] = true;
    finish_known(ingest);
}

static void add_chosen(struct ingest *ingest, struct catalog_ref *ref);

/* The catalog has refused some chunk, or all of them together, and does not say which. */
static void add_in_halves(struct ingest *ingest, struct catalog_ref *ref)
{
    struct ingest_item **all = ingest->chosen;
    size_t count = ingest->chosen_count, half = count / 2;
    ingest->chosen_count = half;
    add_chosen(ingest, ref);
    ingest->chosen = all + half;
    ingest->chosen_count = count - half;
    add_chosen(ingest, ref);
    ingest->chosen = all;
}

static void add_chosen(struct ingest *ingest, struct catalog_ref *ref)
{
    struct refusal refusal;
    struct catalog_op op = { .kind = CATALOG_ADD,
                             .chunks = ingest->chunks,
                             .chunk_count = ingest->chosen_count,
                             .drawn = ingest->chosen[0]->drawn,
                             .late_bound_ms = ingest->settings.late_bound_ms,
                             .settings = &ingest->settings,
                             .ret_known = ingest->known };
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        ingest->chunks[i] = ingest->chosen[i]->chunk;
        op.drawn = mono_earlier(op.drawn, ingest->chosen[i]->drawn);
    }
    enum hf_status status = add_tries(ingest, ref, &op, &refusal.maybe);
    if (status == HF_OK) {
        give_way(ingest, ref);
        return;
    }
    if (status == HF_INVALID && !op.below_floor && ingest->chosen_count > 1) {
        add_in_halves(ingest, ref);
        return;
    }
    refusal.why = op.error;
    refusal.again =
        op.full || status == HF_MISMATCH || status == HF_CONFLICT || status == HF_EXPIRED ||
        op.below_floor; /* the floor rose; the next round finds out which files are too old */
    if (op.other_settings)
        refusal.again = false;
    if (op.full && catalog_ref_split(ref, &refusal.why) != HF_OK)
        refusal.again = false;
    learn_what_happened(ingest, ref, &refusal);
}

/* ---- A batch ------------------------------------------------------------------------- */

/* Whether a chosen file has the same identity. If so, this file waits for the result of that
 * file. */
static bool is_chosen(const struct ingest *ingest, const struct ingest_item *item)
{
    for (size_t i = 0; i < ingest->chosen_count; i++)
        if (memcmp(ingest->chosen[i]->file_id, item->file_id, FILE_ID_DIGITS) == 0)
            return true;
    return false;
}

/* Chooses the unfinished files of one catalog. Files are routed again each time, because the
 * catalog may have been split. */
static void choose_files(struct ingest *ingest)
{
    const char *home = NULL;
    ingest->chosen_count = 0;
    for (size_t i = 0; i < ingest->count; i++) {
        struct ingest_item *item = &ingest->items[i];
        struct hf_error error;
        if (item->settled)
            continue;
        if (catalog_tree_home(ingest->tree, view_of(item->file_id), item->route_ms, item->home,
                              &error) != HF_OK) {
            ingest_fail(ingest, item, &error);
            continue;
        }
        if (!home)
            home = item->home;
        if (strcmp(home, item->home) == 0 && !is_chosen(ingest, item))
            ingest->chosen[ingest->chosen_count++] = item;
    }
}

/* Gives up on files that have been tried too many times. */
static void count_rounds(struct ingest *ingest)
{
    struct hf_error error;
    size_t kept = 0;
    error_set(
        &error, HF_UNAVAILABLE,
        "the catalog was split or refused the name too many times; ingest the file again");
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        struct ingest_item *item = ingest->chosen[i];
        if (++item->rounds > ROUNDS_MAX)
            ingest_fail(ingest, item, &error);
        else
            ingest->chosen[kept++] = item;
    }
    ingest->chosen_count = kept;
}

/* Names must be added within D/2 of being generated. This limit leaves a margin. */
struct span ingest_spare(const struct ingest *ingest)
{
    return SPAN_US(ingest->settings.late_bound_ms * 1000 / 8);
}

/* Whether the rest of the batch must wait. To adopt an object is not to put anything. */
static bool is_batch_late(const struct ingest *ingest, const struct ingest_item *first)
{
    return !ingest->adopts &&
           mono_since(env_now(ingest->tree->env), first->drawn).us > ingest_spare(ingest).us;
}

/* Puts the chosen files, and keeps only the files that were put. If the first name gets too old in
 * the meantime, the remaining files are chosen again later. */
static void put_chosen(struct ingest *ingest, struct catalog_ref *ref)
{
    size_t kept = 0;
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        struct ingest_item *item = ingest->chosen[i];
        struct hf_error error;
        bool maybe;
        if (kept > 0 && is_batch_late(ingest, ingest->chosen[0])) {
            item->rounds--;
            continue;
        }
        if (ingest_is_given_up(ingest, &error)) {
            ingest_fail(ingest, item, &error);
            continue;
        }
        if (ingest->put(ingest, item, &maybe, &error) == HF_OK) {
            ingest->chosen[kept++] = item;
            continue;
        }
        if (maybe)
            condemn_key(ingest, ref, item);
        ingest_fail(ingest, item, &error);
    }
    ingest->chosen_count = kept;
}

/* Refuses the chosen files whose keys are numbers where those of the chunks, or of the files before
 * them, are strings, or the other way round. It is best effort: two clients may add such files at
 * once. Merges accept both kinds, so that nothing is lost. */
static void refuse_other_kinds(struct ingest *ingest, struct catalog_room *room)
{
    size_t kept = 0;
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        struct ingest_item *item = ingest->chosen[i];
        struct hf_error error;
        if (room->kinds_known && ingest_check_kinds(&ingest->settings, room->key_kinds,
                                                    item->chunk.key_kinds, &error) != HF_OK) {
            ingest_fail(ingest, item, &error);
            continue;
        }
        room->key_kinds |= item->chunk.key_kinds;
        ingest->chosen[kept++] = item;
    }
    ingest->chosen_count = kept;
}

/* Ingests the chosen files of one catalog, as many as it has room for. */
static void take_chosen(struct ingest *ingest)
{
    struct hf_error error;
    struct catalog_ref *ref = NULL;
    struct catalog_room room;
    if (ingest_is_given_up(ingest, &error)) {
        ingest_fail_chosen(ingest, &error);
        return;
    }
    enum hf_status status =
        catalog_tree_ref(ingest->tree, view_of(ingest->chosen[0]->home), &ref, &error);
    if (status == HF_OK)
        status = find_room(ingest, ref, &room, &error);
    if (status == HF_OK)
        status = catalog_ref_files_above(ref, ingest->file_ids, ingest->chosen_count,
                                         ingest->known, &error);
    if (ref) {
        finish_known(ingest); /* known files succeed even if there is no room for the others */
        fail_too_old(ingest);
    }
    if (ingest->chosen_count == 0)
        return;
    if (status == HF_OK && room.full && !room.has_children)
        status = catalog_ref_split(ref, &error);
    if (status != HF_OK) {
        ingest_fail_chosen(ingest, &error);
        return;
    }
    ingest->chosen_count = smaller_size(ingest->chosen_count, room.count);
    count_rounds(ingest);
    if (room.has_children || room.full)
        return; /* the files belong to its children now */
    if (ingest->examine)
        ingest->examine(ingest);
    refuse_other_kinds(ingest, &room);
    put_chosen(ingest, ref);
    if (ingest->chosen_count)
        add_chosen(ingest, ref);
}

void ingest_take_items(struct ingest *ingest)
{
    /* Terminates, because each round finishes a file or counts one of its rounds. */
    for (choose_files(ingest); ingest->chosen_count; choose_files(ingest))
        take_chosen(ingest);
    ingest->count = 0;
}

static void ingest_batches(struct ingest *ingest, struct ingest_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct ingest_item *item = &ingest->items[ingest->count];
        *item = (struct ingest_item){ .file = &files[i] };
        if (ingest_survey(ingest, item, &files[i].error) == HF_OK)
            ingest->count++;
        else {
            name_path(&files[i].error, files[i].path);
            ingest->files_done++;
        }
        if (ingest->count == INGEST_BATCH_MAX || i + 1 == count)
            ingest_take_items(ingest);
    }
}

/* ---- Entry points -------------------------------------------------------------------- */

static void copy_settings(void *argument, const struct catalog *catalog,
                          const struct evidence *evidence)
{
    struct ingest *ingest = argument;
    (void)evidence;
    catalog_check_dropping(catalog, &ingest->refused);
    ingest->settings = catalog->settings;
    ingest->no_memory = !compact_settings_keep(&ingest->settings, &ingest->arena);
    ingest_choose_schema(ingest, catalog);
}

enum hf_status ingest_prepare(struct ingest *ingest, struct hf_error *error)
{
    size_t writer_size = ingest->options->writer.size;
    if (writer_size == 0 || writer_size > WRITER_BYTES_MAX)
        return error_set(error, HF_INVALID, "a writer name must be 1 to %d bytes long, not %zu",
                         WRITER_BYTES_MAX, writer_size);
    struct arena *arena = &ingest->arena;
    ingest->items = arena_take(arena, INGEST_BATCH_MAX * sizeof *ingest->items);
    ingest->chosen = arena_take(arena, INGEST_BATCH_MAX * sizeof *ingest->chosen);
    ingest->chunks = arena_take(arena, INGEST_BATCH_MAX * sizeof *ingest->chunks);
    ingest->keys = arena_take(arena, INGEST_BATCH_MAX * sizeof *ingest->keys);
    ingest->file_ids = arena_take(arena, INGEST_BATCH_MAX * sizeof *ingest->file_ids);
    ingest->known = arena_take(arena, INGEST_BATCH_MAX * sizeof *ingest->known);
    ingest->condemned = arena_take(arena, INGEST_BATCH_MAX * sizeof *ingest->condemned);
    if (!ingest->items || !ingest->chosen || !ingest->chunks || !ingest->keys ||
        !ingest->file_ids || !ingest->known || !ingest->condemned)
        return error_no_memory(error);
    struct catalog_ref *ref;
    enum hf_status status =
        catalog_tree_ref(ingest->tree, view_of(ingest->tree->partition), &ref, error);
    if (status == HF_OK)
        status = catalog_ref_show(ref, copy_settings, ingest, error);
    if (status == HF_OK && ingest->refused.status != HF_OK) {
        *error = ingest->refused;
        return error->status;
    }
    return status == HF_OK && ingest->no_memory ? error_no_memory(error) : status;
}

enum hf_status ingest_files(struct catalog_tree *tree, struct ingest_file *files, size_t count,
                            const struct ingest_options *options, struct hf_error *error)
{
    struct ingest ingest = {
        .put = put_new_chunk,
        .tree = tree,
        .options = options,
        .arena = ARENA_INIT,
        .schema = { .fd = -1 },
    };
    ingest.patience = options->patience.us > 0 ? options->patience : CATALOG_TREE_PATIENCE;
    for (size_t i = 0; i < count; i++)
        files[i] = (struct ingest_file){ .path = files[i].path };
    error_clear(error);
    client_active(tree->client);
    enum hf_status status = HF_OK;
    if (options->id.size > 0 && count != 1)
        status = error_set(error, HF_INVALID,
                           "an id identifies one file, but %zu files were given", count);
    if (status == HF_OK)
        status = ingest_prepare(&ingest, error);
    if (status == HF_OK)
        ingest_batches(&ingest, files, count);
    for (size_t i = 0; i < count; i++) {
        if (status != HF_OK && ingest.files_done == 0)
            files[i].error = *error;
        else if (error->status == HF_OK && files[i].error.status != HF_OK)
            *error = files[i].error;
    }
    ingest_release_schema(&ingest);
    arena_release(&ingest.arena);
    return error->status;
}
