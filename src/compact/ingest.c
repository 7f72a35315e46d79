/* ingest.c: files in, chunks out.
 *
 * A batch of files is looked through; then, catalog by catalog, as many as it has room for are
 * put, each under a new name, and added in one write. When that is refused, since a split came
 * between or the names are too old, they are condemned and put anew under other names. A name is
 * never put anew before its home has said that the old one is not data and never will be: so
 * nothing is in the catalog twice.
 *
 * A file has an identity, by its bytes or as its owner names it, and is led to its catalog by that
 * alone. The write that adds it looks whether the catalog knows it; those above that one, which
 * come to know no more, are asked before. So the same file comes in once, whoever brings it,
 * however often, at the same time or after a crash. */
#include "base/check.h"
#include "compact/ingest_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file for which so many names were drawn in vain is given up. */
#define ROUNDS_MAX 16

#define PUT_TRIES_MAX 6
#define ADD_TRIES_MAX 8
#define BACKOFF_FIRST SPAN_MS(20)
#define BACKOFF_MAX   SPAN_S(1)

/* While too many chunks wait the catalog is looked at about so often. */
#define POLL SPAN_MS(500)

/* What an entry takes in a catalog, roughly: so that what does not fit is seldom put in vain. */
#define ENTRY_BYTES 512

/* ---- What becomes of a file ---------------------------------------------------------- */

static void settle(struct ingest *ingest, struct item *item)
{
    check(!item->settled);
    item->settled = true;
    ingest->files_done++;
}

/* Puts the name of the file in front, if the error does not have it. */
static void name_file(struct hf_error *error, const char *path)
{
    struct view name = view_first(view_of(path), ERROR_PATH_MAX);
    if (!memmem(error->why, strlen(error->why), name.data, name.size))
        error_about(error, path);
}

static void fail(struct ingest *ingest, struct item *item, const struct hf_error *error)
{
    item->file->error = *error;
    name_file(&item->file->error, item->file->path);
    settle(ingest, item);
}

/* Takes those out of the chosen whose file is in a catalog; of the others none is known yet. */
static void settle_known(struct ingest *ingest)
{
    size_t kept = 0;
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        struct item *item = ingest->chosen[i];
        if (!ingest->known[i]) {
            ingest->file_ids[kept] = view_of(item->file_id);
            ingest->known[kept] = false;
            ingest->chosen[kept++] = item;
            continue;
        }
        item->file->already = true;
        item->file->key[0] = '\0';
        settle(ingest, item);
    }
    ingest->chosen_count = kept;
}

static void fail_chosen(struct ingest *ingest, const struct hf_error *error)
{
    for (size_t i = 0; i < ingest->chosen_count; i++)
        fail(ingest, ingest->chosen[i], error);
    ingest->chosen_count = 0;
}

enum hf_status ingest_stopped(struct hf_error *error)
{
    return error_set(error, HF_CANCELLED, "stopped before it was taken");
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

/* What a catalog has to say to those who want to add to it. */
struct vacancy {
    struct ingest *ingest; /* whose chosen it may know already */
    bool has_children;
    bool full;
    uint64_t pressure;
    size_t waiting; /* to be merged */
    size_t dead;    /* to be deleted */
    size_t count;   /* so many chunks may be added now */
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void look_for_room(void *argument, const struct catalog *catalog,
                          const struct evidence *evidence)
{
    struct vacancy *room = argument;
    struct ingest *ingest = room->ingest;
    (void)evidence;
    for (size_t i = 0; i < ingest->chosen_count; i++)
        ingest->known[i] = catalog_knows_file(catalog, ingest->file_ids[i]);
    *room = (struct vacancy){ .ingest = ingest,
                              .has_children = catalog->child_count > 0,
                              .full = catalog->live_count >= CATALOG_LIVE_MAX,
                              .pressure = catalog_pressure(catalog),
                              .dead = catalog->dead_count };
    for (size_t i = 0; i < catalog->live_count; i++)
        room->waiting += catalog->live[i].level == 0 && catalog->live[i].quarantine.size == 0;
    uint64_t backlog = catalog->settings.backlog_max;
    size_t most = room->full ? 0 : CATALOG_LIVE_MAX - catalog->live_count;
    if (backlog > room->waiting && backlog - room->waiting < most)
        most = (size_t)(backlog - room->waiting);
    size_t bytes =
        CATALOG_LIVE_BYTES_MAX - smaller(catalog->live_bytes, CATALOG_LIVE_BYTES_MAX);
    room->count = smaller(most, bytes / ENTRY_BYTES);
    if (room->count == 0)
        room->count = 1; /* whether it has room for one the catalog itself knows best */
}

/* Whether the catalog knows the file of each of them. */
static bool are_all_known(const struct ingest *ingest)
{
    for (size_t i = 0; i < ingest->chosen_count; i++)
        if (!ingest->known[i])
            return false;
    return true;
}

/* Waits, if it may, until chunks may be added; needs none for what is there. */
static enum hf_status find_room(struct ingest *ingest, struct slot *slot, struct vacancy *room,
                                struct hf_error *error)
{
    struct env *env = ingest->shelf->env;
    struct mono_time until = ingest->options->until;
    *room = (struct vacancy){ .ingest = ingest };
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        ingest->file_ids[i] = view_of(ingest->chosen[i]->file_id);
        ingest->known[i] = false;
    }
    for (;;) {
        enum hf_status status = slot_show(slot, look_for_room, room, error);
        if (status != HF_OK || room->has_children || room->pressure < 100 ||
            are_all_known(ingest))
            return status;
        if (!ingest_goes_on(ingest, 0))
            return ingest_stopped(error);
        struct mono_time now = env_now(env);
        if (!mono_before(now, until))
            return error_set(error, HF_UNAVAILABLE,
                             "%zu chunks wait to be merged and %zu to be deleted: no more are "
                             "taken until there are fewer",
                             room->waiting, room->dead);
        struct mono_time next = mono_add(now, SPAN_MS(1));
        next = mono_add(next, env_jitter(env, POLL));
        env_sleep_until(env, mono_earlier(next, until));
    }
}

/* ---- Putting ------------------------------------------------------------------------- */

/* Whether it may work when asked again. */
static bool is_passing(enum hf_status status)
{
    return status == HF_UNSURE || status == HF_UNAVAILABLE || status == HF_TIMEOUT;
}

/* What a request that began then was told. */
static void note_answer(struct ingest *ingest, enum hf_status status, struct mono_time begun)
{
    if (!is_passing(status))
        ingest->silent = (struct mono_time){ 0 };
    else if (ingest->silent.us == 0)
        ingest->silent = begun;
}

/* One patience for all files: a store that is gone is not asked for each of them anew. */
static bool is_given_up(const struct ingest *ingest, struct hf_error *error)
{
    if (ingest->silent.us == 0)
        return false;
    struct span silence = mono_since(env_now(ingest->shelf->env), ingest->silent);
    if (silence.us < ingest->patience.us)
        return false;
    error_set(error, HF_UNAVAILABLE, "not tried: the store has not answered for %lld s",
              (long long)(silence.us / 1000000));
    return true;
}

static void back_off(struct env *env, struct span *backoff)
{
    env_sleep(env, env_jitter(env, *backoff));
    backoff->us *= 2;
    *backoff = span_smaller(*backoff, BACKOFF_MAX);
}

static bool put_step(void *argument, uint64_t done, uint64_t total)
{
    (void)total;
    return ingest_goes_on(argument, done);
}

/* Nobody else draws this name: what is there is ours, whether a put was refused for it or had no
 * answer. To look is quicker than to put again. */
static bool has_landed(struct ingest *ingest, const struct item *item)
{
    struct buffer body = BUFFER_INIT(1);
    struct get_call get = { .key = view_of(item->file->key), .length = 1, .body = &body };
    enum hf_status status = store_get(ingest->shelf->store, &get);
    buffer_release(&body);
    return status == HF_OK && get.info.size == item->chunk.size;
}

static enum hf_status put_once(struct ingest *ingest, struct item *item, int fd,
                               enum condition_kind condition, struct hf_error *error)
{
    struct progress progress = { put_step, ingest };
    struct put_call put = { .key = view_of(item->file->key), .quiet = true };
    put.condition.kind = condition;
    enum hf_status status = store_put_file(ingest->shelf->store, &put, fd, &progress);
    *error = put.error;
    if (status != HF_CONFLICT && status != HF_UNSURE)
        return status;
    if (has_landed(ingest, item))
        return error_clear(error);
    return status == HF_UNSURE
               ? status
               : error_set(error, HF_UNSURE, "the store refuses a name that it does not have");
}

/* *ret_maybe: a try without an answer may have landed, or may yet. */
static enum hf_status put_tries(struct ingest *ingest, struct item *item, int fd,
                                bool *ret_maybe, struct hf_error *error)
{
    enum condition_kind condition = CONDITION_ABSENT;
    struct span backoff = BACKOFF_FIRST;
    struct hf_error ignored;
    for (int tries = 1;; tries++) {
        struct mono_time begun = env_now(ingest->shelf->env);
        enum hf_status status = put_once(ingest, item, fd, condition, error);
        note_answer(ingest, status, begun);
        *ret_maybe = *ret_maybe || status == HF_UNSURE;
        if (tries >= PUT_TRIES_MAX || is_given_up(ingest, &ignored))
            return status;
        if (status == HF_UNSUPPORTED && condition == CONDITION_ABSENT)
            condition = CONDITION_ALWAYS; /* too large for one: the name alone must do */
        else if (is_passing(status) && ingest_goes_on(ingest, 0))
            back_off(ingest->shelf->env, &backoff);
        else
            return status;
    }
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* What was put must be what was looked through. */
static enum hf_status check_unchanged(const struct item *item, int fd, struct hf_error *error)
{
    struct stat now;
    if (fstat(fd, &now) == 0 && is_same(&now, &item->seen))
        return HF_OK;
    return error_set(error, HF_UNAVAILABLE, "it changed while it was read");
}

static enum hf_status put_open(struct ingest *ingest, struct item *item, int fd,
                               bool *ret_maybe, struct hf_error *error)
{
    struct env *env = ingest->shelf->env;
    struct compact_settings settings = ingest->settings;
    settings.coding = item->coding; /* a name tells how its object is compressed */
    enum hf_status status = check_unchanged(item, fd, error);
    if (status == HF_OK)
        status = chunk_key_draw(env, view_of(item->home), /* level */ 0, item->chunk.min_ms,
                                &settings, item->file->key, &item->drawn, error);
    if (status != HF_OK)
        return status;
    item->chunk.key = view_of(item->file->key);
    status = put_tries(ingest, item, fd, ret_maybe, error);
    if (status != HF_OK)
        return status;
    *ret_maybe = true;
    return check_unchanged(item, fd, error);
}

/* Puts it under a new name. *ret_maybe: unless OK, there may be an object of that name. */
static enum hf_status put_file(struct ingest *ingest, struct item *item, bool *ret_maybe,
                               struct hf_error *error)
{
    *ret_maybe = false;
    if (!ingest_goes_on(ingest, 0))
        return ingest_stopped(error);
    int fd = open(item->file->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_cannot_open(error, errno, item->file->path);
    enum hf_status status = put_open(ingest, item, fd, ret_maybe, error);
    close(fd);
    if (status == HF_OK)
        ingest->bytes_done += item->chunk.size;
    if (status == HF_UNSURE) /* but it was not added */
        status = error->status = HF_UNAVAILABLE;
    return status;
}

/* ---- Condemning ---------------------------------------------------------------------- */

/* Asks for the keys of the chosen; ingest->condemned has the answers when it is OK. */
static enum hf_status condemn_chosen(struct ingest *ingest, struct slot *slot,
                                     struct hf_error *error)
{
    for (size_t i = 0; i < ingest->chosen_count; i++)
        ingest->keys[i] = view_of(ingest->chosen[i]->file->key);
    struct catalog_op op = { .kind = CATALOG_CONDEMN,
                             .keys = ingest->keys,
                             .key_count = ingest->chosen_count,
                             .ret_condemned = ingest->condemned };
    struct mono_time deadline = mono_add(env_now(ingest->shelf->env), ingest->patience);
    enum hf_status status = slot_apply(slot, &op, deadline);
    *error = op.error;
    return status;
}

/* The object of a file that was not taken, so that it is deleted. Best effort: fsck finds what
 * stays. */
static void condemn_key(struct ingest *ingest, struct slot *slot, const struct item *item)
{
    struct view key = view_of(item->file->key);
    struct catalog_op op = { .kind = CATALOG_CONDEMN, .keys = &key, .key_count = 1 };
    struct mono_time begun = env_now(ingest->shelf->env);
    note_answer(ingest, slot_apply(slot, &op, mono_add(begun, ingest->patience)), begun);
}

/* ---- Adding -------------------------------------------------------------------------- */

/* Asks until it is answered: where it has happened, asking again is told so. *ret_maybe: unless
 * OK, a try without an answer may have landed, or may until the next write. */
static enum hf_status add_tries(struct ingest *ingest, struct slot *slot, struct catalog_op *op,
                                bool *ret_maybe)
{
    struct env *env = ingest->shelf->env;
    struct mono_time deadline = mono_add(env_now(env), ingest->patience);
    struct span backoff = BACKOFF_FIRST;
    *ret_maybe = false;
    for (int tries = 1;; tries++) {
        enum hf_status status = slot_apply(slot, op, deadline);
        *ret_maybe = *ret_maybe || status == HF_UNSURE;
        if (!is_passing(status) || op->full || tries == ADD_TRIES_MAX ||
            !mono_before(env_now(env), deadline))
            return status;
        back_off(env, &backoff);
    }
}

/* Whether other names would do. */
static bool is_worth_new_names(enum hf_status status, const struct catalog_op *op)
{
    return op->full || status == HF_MISMATCH || status == HF_CONFLICT || status == HF_EXPIRED;
}

/* How an add ended that was not answered with OK. */
struct refusal {
    struct hf_error why;
    bool again; /* other names would do */
    bool maybe; /* it may have happened, or may until the next write */
};

/* Their home knows which of the chosen were added, and sees to it that those that were not never
 * will be: these stay open when other names would do. */
static void learn_what_happened(struct ingest *ingest, struct slot *slot,
                                const struct refusal *refusal)
{
    struct hf_error unanswered, why = refusal->why;
    int64_t age_us = mono_since(env_now(ingest->shelf->env), ingest->chosen[0]->drawn).us;
    /* A name that was live, merged and dropped since is unknown again: after D nobody can tell. */
    bool answered = condemn_chosen(ingest, slot, &unanswered) == HF_OK &&
                    age_us < ingest->settings.late_bound_ms * 1000;
    if (!answered && refusal->maybe)
        why.status = HF_UNSURE;
    else if (why.status == HF_UNSURE || refusal->again)
        why.status = HF_UNAVAILABLE;
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        if (answered && ingest->condemned[i] == CONDEMN_HAPPENED)
            settle(ingest, ingest->chosen[i]);
        else if (!answered || !refusal->again)
            fail(ingest, ingest->chosen[i], &why);
    }
}

/* Somebody else has added the same file meanwhile: what we have put is nobody's. */
static void give_way(struct ingest *ingest, struct slot *slot)
{
    struct hf_error ignored;
    size_t count = 0;
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        if (ingest->known[i])
            ingest->chosen[count++] = ingest->chosen[i];
        else
            settle(ingest, ingest->chosen[i]);
    }
    ingest->chosen_count = count;
    if (count > 0)
        condemn_chosen(ingest, slot, &ignored); /* else fsck finds it */
    for (size_t i = 0; i < count; i++)
        ingest->known[i] = true;
    settle_known(ingest);
}

static void add_chosen(struct ingest *ingest, struct slot *slot)
{
    struct refusal refusal;
    struct catalog_op op = { .kind = CATALOG_ADD,
                             .chunks = ingest->chunks,
                             .chunk_count = ingest->chosen_count,
                             .drawn = ingest->chosen[0]->drawn,
                             .ret_known = ingest->known };
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        ingest->chunks[i] = ingest->chosen[i]->chunk;
        op.drawn = mono_earlier(op.drawn, ingest->chosen[i]->drawn);
    }
    enum hf_status status = add_tries(ingest, slot, &op, &refusal.maybe);
    if (status == HF_OK) {
        give_way(ingest, slot);
        return;
    }
    refusal.why = op.error;
    refusal.again = is_worth_new_names(status, &op);
    if (op.full && slot_split(slot, &refusal.why) != HF_OK)
        refusal.again = false;
    learn_what_happened(ingest, slot, &refusal);
}

/* ---- A batch ------------------------------------------------------------------------- */

/* Whether one of the chosen is the same file: then it is this one's turn once that is settled. */
static bool is_chosen(const struct ingest *ingest, const struct item *item)
{
    for (size_t i = 0; i < ingest->chosen_count; i++)
        if (memcmp(ingest->chosen[i]->file_id, item->file_id, FILE_ID_DIGITS) == 0)
            return true;
    return false;
}

/* Those that belong to the catalog of the first that is still open. Asked anew each time: it may
 * have been split since. */
static void choose(struct ingest *ingest)
{
    const char *home = NULL;
    ingest->chosen_count = 0;
    for (size_t i = 0; i < ingest->count; i++) {
        struct item *item = &ingest->items[i];
        struct hf_error error;
        if (item->settled)
            continue;
        if (shelf_home(ingest->shelf, view_of(item->file_id), item->route_ms, item->home,
                       &error) != HF_OK) {
            fail(ingest, item, &error);
            continue;
        }
        if (!home)
            home = item->home;
        if (strcmp(home, item->home) == 0 && !is_chosen(ingest, item))
            ingest->chosen[ingest->chosen_count++] = item;
    }
}

/* Gives up on those that were tried too often. */
static void count_rounds(struct ingest *ingest)
{
    struct hf_error error;
    size_t kept = 0;
    error_set(&error, HF_UNAVAILABLE, "the catalog was split, or refused its name, too often");
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        struct item *item = ingest->chosen[i];
        if (++item->rounds > ROUNDS_MAX)
            fail(ingest, item, &error);
        else
            ingest->chosen[kept++] = item;
    }
    ingest->chosen_count = kept;
}

/* A name must be added within D/2 of being drawn: those of a batch are, with time to spare. */
static bool is_late(struct ingest *ingest, const struct item *first)
{
    int64_t spare_us = ingest->settings.late_bound_ms * 1000 / 8;
    return mono_since(env_now(ingest->shelf->env), first->drawn).us > spare_us;
}

/* Leaves chosen those that are there. What time does not suffice for is chosen again later. */
static void put_chosen(struct ingest *ingest, struct slot *slot)
{
    size_t kept = 0;
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        struct item *item = ingest->chosen[i];
        struct hf_error error;
        bool maybe;
        if (kept > 0 && is_late(ingest, ingest->chosen[0])) {
            item->rounds--;
            continue;
        }
        if (is_given_up(ingest, &error)) {
            fail(ingest, item, &error);
            continue;
        }
        if (put_file(ingest, item, &maybe, &error) == HF_OK) {
            ingest->chosen[kept++] = item;
            continue;
        }
        if (maybe)
            condemn_key(ingest, slot, item);
        fail(ingest, item, &error);
    }
    ingest->chosen_count = kept;
}

/* One catalog, as many of its files as it has room for. */
static void take_chosen(struct ingest *ingest)
{
    struct hf_error error;
    struct slot *slot = NULL;
    struct vacancy room;
    if (is_given_up(ingest, &error)) {
        fail_chosen(ingest, &error);
        return;
    }
    enum hf_status status =
        shelf_slot(ingest->shelf, view_of(ingest->chosen[0]->home), &slot, &error);
    if (status == HF_OK)
        status = find_room(ingest, slot, &room, &error);
    if (status == HF_OK)
        status = slot_files_above(slot, ingest->file_ids, ingest->chosen_count, ingest->known,
                                  &error);
    if (slot)
        settle_known(ingest); /* also when there is no room for the others */
    if (ingest->chosen_count == 0)
        return;
    if (status == HF_OK && room.full && !room.has_children)
        status = slot_split(slot, &error);
    if (status != HF_OK) {
        fail_chosen(ingest, &error);
        return;
    }
    ingest->chosen_count = smaller(ingest->chosen_count, room.count);
    count_rounds(ingest);
    if (room.has_children || room.full)
        return; /* they belong to its children */
    put_chosen(ingest, slot);
    if (ingest->chosen_count)
        add_chosen(ingest, slot);
}

/* Each turn settles a file, or uses up one of its rounds. */
static void take_batch(struct ingest *ingest)
{
    for (choose(ingest); ingest->chosen_count; choose(ingest))
        take_chosen(ingest);
}

static void take_files(struct ingest *ingest, struct ingest_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct item *item = &ingest->items[ingest->count];
        *item = (struct item){ .file = &files[i] };
        if (ingest_survey(ingest, item, &files[i].error) == HF_OK)
            ingest->count++;
        else {
            name_file(&files[i].error, files[i].path);
            ingest->files_done++;
        }
        if (ingest->count == INGEST_BATCH_MAX || i + 1 == count) {
            take_batch(ingest);
            ingest->count = 0;
        }
    }
}

/* ---- The door ------------------------------------------------------------------------ */

struct settings_look {
    struct ingest *ingest;
    bool failed;
};

static void look_at_settings(void *argument, const struct catalog *catalog,
                             const struct evidence *evidence)
{
    struct settings_look *look = argument;
    struct compact_settings *settings = &look->ingest->settings;
    (void)evidence;
    *settings = catalog->settings;
    look->failed = !compact_settings_keep(settings, &look->ingest->arena);
}

static enum hf_status read_settings(struct ingest *ingest, struct hf_error *error)
{
    struct slot *slot;
    struct settings_look look = { .ingest = ingest };
    enum hf_status status =
        shelf_slot(ingest->shelf, view_of(ingest->shelf->partition), &slot, error);
    if (status == HF_OK)
        status = slot_show(slot, look_at_settings, &look, error);
    return status == HF_OK && look.failed ? error_no_memory(error) : status;
}

static enum hf_status prepare(struct ingest *ingest, struct hf_error *error)
{
    size_t writer_size = ingest->options->writer.size;
    if (writer_size == 0 || writer_size > WRITER_BYTES_MAX)
        return error_set(error, HF_INVALID, "the name of a writer has 1 to %d bytes, not %zu",
                         WRITER_BYTES_MAX, writer_size);
    ingest->items = calloc(INGEST_BATCH_MAX, sizeof *ingest->items);
    ingest->chosen = calloc(INGEST_BATCH_MAX, sizeof *ingest->chosen);
    ingest->chunks = calloc(INGEST_BATCH_MAX, sizeof *ingest->chunks);
    ingest->keys = calloc(INGEST_BATCH_MAX, sizeof *ingest->keys);
    ingest->file_ids = calloc(INGEST_BATCH_MAX, sizeof *ingest->file_ids);
    ingest->known = calloc(INGEST_BATCH_MAX, sizeof *ingest->known);
    ingest->condemned = calloc(INGEST_BATCH_MAX, sizeof *ingest->condemned);
    if (!ingest->items || !ingest->chosen || !ingest->chunks || !ingest->keys ||
        !ingest->file_ids || !ingest->known || !ingest->condemned)
        return error_no_memory(error);
    return read_settings(ingest, error);
}

static void release(struct ingest *ingest)
{
    free(ingest->items);
    free(ingest->chosen);
    free(ingest->chunks);
    free(ingest->keys);
    free(ingest->file_ids);
    free(ingest->known);
    free(ingest->condemned);
    arena_release(&ingest->arena);
}

enum hf_status ingest_files(struct shelf *shelf, struct ingest_file *files, size_t count,
                            const struct ingest_options *options, struct hf_error *error)
{
    struct ingest ingest = { .shelf = shelf, .options = options, .arena = ARENA_INIT };
    ingest.patience = options->patience.us > 0 ? options->patience : SHELF_PATIENCE;
    for (size_t i = 0; i < count; i++)
        files[i] = (struct ingest_file){ .path = files[i].path };
    error_clear(error);
    client_active(shelf->client);
    enum hf_status status = HF_OK;
    if (options->id.size > 0 && count != 1)
        status = error_set(error, HF_INVALID,
                           "an id is the identity of one file: %zu files are given", count);
    if (status == HF_OK)
        status = prepare(&ingest, error);
    if (status == HF_OK)
        take_files(&ingest, files, count);
    for (size_t i = 0; i < count; i++) {
        if (status != HF_OK && ingest.files_done == 0)
            files[i].error = *error;
        else if (error->status == HF_OK && files[i].error.status != HF_OK)
            *error = files[i].error;
    }
    release(&ingest);
    return error->status;
}
