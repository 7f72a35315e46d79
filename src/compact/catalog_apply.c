/* catalog_apply.c: the transitions of a catalog: what comes in, by add and commit; and what all
 * transitions share. Those by which chunks leave are in catalog_leave.c, the others in
 * catalog_change.c.
 *
 * Each one first looks and allocates, then changes what can no longer fail; so a refusal, or no
 * memory, leaves the catalog as it was. */
#include "base/check.h"
#include "base/parse.h"
#include "base/rule.h"
#include "base/utf8.h"
#include "compact/catalog_inside.h"

#include <stdio.h>
#include <stdlib.h>

/* Garbage that is left in memory before the catalog is renewed, besides as much as it holds. */
#define GARBAGE_MAX ((size_t)1024 * 1024)

/* Keys that one operation may name. */
#define OP_KEYS_MAX CATALOG_LIVE_MAX

/* ---- What transitions share ---------------------------------------------------------- */

/* Whether a key of this state was live once: what was asked of it has happened. */
static bool chunk_was_live(enum chunk_state state)
{
    return state == CHUNK_LIVE || state == CHUNK_TOMBSTONE || state == CHUNK_RETIRED ||
           state == CHUNK_MOVED;
}

enum hf_status catalog_name_age(const struct catalog *catalog, struct catalog_op *op,
                                const struct evidence *evidence)
{
    struct span half = SPAN_MS(catalog->settings.late_bound_ms / 2);
    if (RULE(NAMES_EXPIRE) && mono_since(evidence->now, op->drawn).us >= half.us)
        return error_set(&op->error, HF_EXPIRED,
                         "the name was drawn too long ago to be used any more");
    return HF_OK;
}

enum hf_status catalog_check_twice(const struct view *keys, size_t count,
                                   struct hf_error *error)
{
    struct key_index seen = { 0 };
    if (!key_index_reserve(&seen, count))
        return error_no_memory(error);
    bool twice = false;
    for (size_t i = 0; i < count && !twice; i++) {
        twice = keys[i].size > 0 && key_index_get(&seen, keys[i]) != NULL;
        if (keys[i].size > 0)
            key_index_put(&seen, keys[i], CHUNK_UNKNOWN, 0);
    }
    key_index_release(&seen);
    return twice ? error_set(error, HF_INVALID, "a key stands twice in the request") : HF_OK;
}

struct grave catalog_new_grave(const struct evidence *evidence, struct view into,
                               struct chunk *chunks, size_t count)
{
    return (struct grave){ .into = into,
                           .since = stamp_now(evidence),
                           .seen = evidence->now,
                           .unwritten = true,
                           .chunks = chunks,
                           .count = count,
                           .unknown = VIEW("") };
}

unsigned catalog_cascade(const struct catalog *catalog)
{
    return cascade_target(&catalog->cascade, catalog->settings.cascade_base);
}

void catalog_set_due(struct catalog *catalog, unsigned target, const struct evidence *evidence)
{
    unsigned now = catalog_cascade(catalog);
    if (now == 0)
        catalog->due = (struct stamp){ 0, 0 };
    else if (target == 0)
        catalog->due = stamp_now(evidence);
}

struct reason reason_make(unsigned tries, struct view why)
{
    struct reason reason = { .size = 0 };
    char start[64] = "";
    if (tries > 0)
        snprintf(start, sizeof start, "tried %u time%s: ", tries, plural(tries));
    reason.size = strlen(start);
    memcpy(reason.text, start, reason.size);
    if (why.size == 0)
        why = VIEW("no reason was given");
    while (why.size > 0) {
        size_t size = utf8_size(why);
        bool printable = size > 0 && (unsigned char)why.data[0] >= ' ';
        size_t taken = size > 0 ? size : 1, put = printable ? size : 1;
        if (reason.size + put > sizeof reason.text)
            break;
        memcpy(reason.text + reason.size, printable ? why.data : " ", put);
        reason.size += put;
        why = view_from(why, taken);
    }
    return reason;
}

/* ---- Add ----------------------------------------------------------------------------- */

/* Whether it is to be added: neither its key was, nor, under another key, its file. */
static bool is_fresh(const struct catalog *catalog, const struct chunk *chunk, bool *ret_known)
{
    bool was_added = chunk_was_live(catalog_state(catalog, chunk->key)) && RULE(ADD_ONCE);
    *ret_known =
        !was_added && catalog_knows_file(catalog, chunk->file_id) && RULE(ADD_KNOWS_THE_FILE);
    return !was_added && !*ret_known;
}

/* What an add has prepared; nothing of it is in the catalog yet. */
struct adding {
    struct chunk *chunks; /* the new ones */
    size_t count;
    size_t bytes;
    struct writer *writers; /* the state vector as it will be */
    size_t writer_count;
};

static enum hf_status check_added(const struct catalog *catalog, struct catalog_op *op)
{
    if (op->chunk_count == 0 || op->chunk_count > OP_KEYS_MAX)
        return error_set(&op->error, HF_INVALID, "1 to %d chunks can be added at once",
                         OP_KEYS_MAX);
    struct view *keys = malloc(2 * op->chunk_count * sizeof *keys);
    if (!keys)
        return error_no_memory(&op->error);
    struct view *file_ids = keys + op->chunk_count;
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < op->chunk_count && status == HF_OK; i++) {
        const struct chunk *chunk = &op->chunks[i];
        keys[i] = chunk->key;
        file_ids[i] = chunk->file_id;
        status = chunk_check(chunk, &op->error);
        if (status == HF_OK)
            status = catalog_check_key(catalog, chunk->key, &op->error);
        if (status == HF_OK && chunk->writer.size == 0)
            status = error_set(&op->error, HF_INVALID, "a chunk that is added has a writer");
    }
    if (status == HF_OK)
        status = catalog_check_twice(keys, op->chunk_count, &op->error);
    if (status == HF_OK)
        status = catalog_check_twice(file_ids, op->chunk_count, &op->error);
    free(keys);
    return status;
}

/* Refusals of an add, but for those that need memory to be found. `ret_fresh`: how many chunks
 * are new here; none: it has happened. */
static enum hf_status judge_add(struct catalog *catalog, struct catalog_op *op,
                                const struct evidence *evidence, size_t *ret_fresh)
{
    size_t fresh = 0;
    for (size_t i = 0; i < op->chunk_count; i++) {
        enum chunk_state state = catalog_state(catalog, op->chunks[i].key);
        bool known;
        if (RULE(ADD_REFUSES_CONDEMNED) && state == CHUNK_CONDEMNED)
            return error_set(&op->error, HF_CONFLICT,
                             "a chunk of this name was condemned: put it under a new one");
        fresh += is_fresh(catalog, &op->chunks[i], &known);
        if (op->ret_known)
            op->ret_known[i] = known;
    }
    *ret_fresh = fresh;
    if (fresh == 0)
        return HF_OK;
    if (catalog->child_count > 0)
        return error_set(&op->error, HF_MISMATCH,
                         "the partition was split: a child is to be asked");
    enum hf_status status = catalog_name_age(catalog, op, evidence);
    if (status != HF_OK)
        return status;
    op->full = catalog->live_count + fresh > CATALOG_LIVE_MAX;
    return op->full ? error_set(&op->error, HF_UNAVAILABLE,
                                "the catalog is full and has to be split")
                    : HF_OK;
}

/* The next number of a writer; one more writer when it is new. */
static enum hf_status next_sequence(struct catalog *catalog, struct adding *adding,
                                    struct view name, uint64_t *ret_sequence,
                                    struct hf_error *error)
{
    size_t place = writer_place(adding->writers, adding->writer_count, name);
    bool known = place < adding->writer_count && view_equal(adding->writers[place].name, name);
    bool is_rest = view_equal(name, VIEW(CATALOG_WRITERS_REST));
    if (!known && !is_rest && adding->writer_count >= CATALOG_WRITERS_MAX)
        return next_sequence(catalog, adding, VIEW(CATALOG_WRITERS_REST), ret_sequence, error);
    if (!known) {
        struct view kept = catalog_keep(catalog, name);
        if (!kept.data)
            return error_no_memory(error);
        memmove(&adding->writers[place + 1], &adding->writers[place],
                (adding->writer_count - place) * sizeof *adding->writers);
        adding->writers[place] = (struct writer){ kept, 0 };
        adding->writer_count++;
    }
    *ret_sequence = ++adding->writers[place].sequence;
    return HF_OK;
}

static enum hf_status prepare_chunk(struct catalog *catalog, struct catalog_op *op,
                                    const struct chunk *asked, struct adding *adding,
                                    const struct evidence *evidence)
{
    struct chunk chunk = *asked;
    chunk.since = stamp_now(evidence);
    chunk.tries = 0;
    chunk.quarantine = VIEW("");
    enum hf_status status =
        next_sequence(catalog, adding, chunk.writer, &chunk.sequence, &op->error);
    if (status == HF_OK)
        status = chunk_keep(catalog, &chunk, &op->error);
    if (status != HF_OK)
        return status;
    adding->chunks[adding->count++] = chunk;
    adding->bytes += chunk_bytes(&chunk);
    return HF_OK;
}

static enum hf_status prepare_add(struct catalog *catalog, struct catalog_op *op, size_t fresh,
                                  struct adding *adding, const struct evidence *evidence)
{
    size_t writers = catalog->writer_count + fresh + 1;
    adding->chunks = malloc(fresh * sizeof *adding->chunks);
    adding->writers = malloc(writers * sizeof *adding->writers);
    if (!adding->chunks || !adding->writers || !catalog_room_live(catalog, fresh) ||
        !catalog_reserve_keys(catalog, fresh))
        return error_no_memory(&op->error);
    if (catalog->writer_count > 0)
        memcpy(adding->writers, catalog->writers,
               catalog->writer_count * sizeof *adding->writers);
    adding->writer_count = catalog->writer_count;
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < op->chunk_count && status == HF_OK; i++) {
        bool known;
        if (is_fresh(catalog, &op->chunks[i], &known))
            status = prepare_chunk(catalog, op, &op->chunks[i], adding, evidence);
    }
    if (status != HF_OK)
        return status;
    op->full = catalog->live_bytes + adding->bytes > CATALOG_LIVE_BYTES_MAX;
    if (op->full && catalog->live_count == 0)
        return error_set(&op->error, HF_INVALID, "too much is added at once");
    return op->full ? error_set(&op->error, HF_UNAVAILABLE,
                                "the catalog is full and has to be split")
                    : HF_OK;
}

void catalog_count_entry(struct catalog *catalog, unsigned level)
{
    if (level == 0)
        cascade_added(&catalog->cascade, 1);
    else if (level + 1 < CASCADE_LEVELS_MAX)
        catalog->cascade.counts[level + 1]++;
}

static void do_add(struct catalog *catalog, struct adding *adding,
                   const struct evidence *evidence)
{
    unsigned target = catalog_cascade(catalog);
    for (size_t i = 0; i < adding->count; i++) {
        catalog_push_live(catalog, &adding->chunks[i]);
        catalog_count_entry(catalog, adding->chunks[i].level);
    }
    free(catalog->writers);
    catalog->writers = adding->writers;
    catalog->writer_count = adding->writer_count;
    catalog->inside->writer_room = adding->writer_count;
    adding->writers = NULL;
    catalog_set_due(catalog, target, evidence);
}

enum hf_status catalog_apply_add(struct catalog *catalog, struct catalog_op *op,
                                 const struct evidence *evidence)
{
    size_t fresh = 0;
    enum hf_status status = check_added(catalog, op);
    if (status == HF_OK)
        status = judge_add(catalog, op, evidence, &fresh);
    if (status != HF_OK)
        return status;
    if (fresh == 0) {
        op->already = true;
        return HF_OK;
    }
    struct adding adding = { 0 };
    status = prepare_add(catalog, op, fresh, &adding, evidence);
    if (status == HF_OK) {
        do_add(catalog, &adding, evidence);
        op->changed = true;
    }
    free(adding.chunks);
    free(adding.writers);
    return status;
}

/* ---- Commit -------------------------------------------------------------------------- */

static enum hf_status check_commit(const struct catalog *catalog, struct catalog_op *op)
{
    if (op->key_count == 0 || op->key_count > OP_KEYS_MAX)
        return error_set(&op->error, HF_INVALID, "a merge has 1 to %d sources", OP_KEYS_MAX);
    enum hf_status status = chunk_check(&op->target, &op->error);
    if (status == HF_OK)
        status = catalog_check_key(catalog, op->target.key, &op->error);
    if (status == HF_OK && op->target.level == 0)
        status = error_set(&op->error, HF_INVALID, "what is merged is of level 1 at least");
    for (size_t i = 0; i < op->key_count && status == HF_OK; i++)
        if (view_equal(op->keys[i], op->target.key))
            status = error_set(&op->error, HF_INVALID, "a chunk cannot be merged into itself");
    return status == HF_OK ? catalog_check_twice(op->keys, op->key_count, &op->error) : status;
}

static enum hf_status judge_commit(const struct catalog *catalog, struct catalog_op *op,
                                   const struct evidence *evidence)
{
    enum chunk_state state = catalog_state(catalog, op->target.key);
    if (chunk_was_live(state)) {
        op->already = RULE(COMMIT_ONCE);
        return HF_OK;
    }
    if (RULE(COMMIT_REFUSES_CONDEMNED) && state == CHUNK_CONDEMNED)
        return error_set(&op->error, HF_CONFLICT,
                         "the output was condemned: its lease was taken for over");
    for (size_t i = 0; i < op->key_count; i++) {
        state = catalog_state(catalog, op->keys[i]);
        if (RULE(COMMIT_NEEDS_LIVE_SOURCES) && state != CHUNK_LIVE)
            return error_set(&op->error, HF_CONFLICT, "a source is not live any more: it is %s",
                             chunk_state_name(state));
    }
    return catalog_name_age(catalog, op, evidence);
}

/* Those of the sources that are live, which are all; in the order in which they were named. */
static struct grave bury_sources(struct catalog *catalog, const struct catalog_op *op,
                                 struct view into, struct chunk *chunks,
                                 const struct evidence *evidence)
{
    size_t count = 0;
    for (size_t i = 0; i < op->key_count; i++) {
        struct chunk *source = catalog_live_by_key(catalog, op->keys[i]);
        if (source && !source->leaving) {
            chunks[count++] = *source;
            source->leaving = true;
        }
    }
    return catalog_new_grave(evidence, into, chunks, count);
}

/* A merge may leave some of what is below its level: tried before, of another home, too many. They
 * still wait to be merged. */
static void count_left_behind(struct catalog *catalog, unsigned level)
{
    for (size_t i = 0; i < catalog->live_count; i++) {
        const struct chunk *chunk = &catalog->live[i];
        if (chunk->level < level && chunk->quarantine.size == 0)
            catalog_count_entry(catalog, chunk->level);
    }
}

enum hf_status catalog_apply_commit(struct catalog *catalog, struct catalog_op *op,
                                    const struct evidence *evidence)
{
    enum hf_status status = check_commit(catalog, op);
    if (status == HF_OK)
        status = judge_commit(catalog, op, evidence);
    if (status != HF_OK || op->already)
        return status;
    struct chunk target = op->target;
    target.since = stamp_now(evidence);
    target.sequence = 0;
    target.file_id = VIEW("");
    target.tries = 0;
    target.quarantine = VIEW("");
    struct chunk *sources = catalog_take(catalog, op->key_count * sizeof *sources);
    if (!sources || !catalog_room_live(catalog, 1) || !catalog_room_graves(catalog, 1) ||
        !catalog_reserve_keys(catalog, op->key_count + 1))
        return error_no_memory(&op->error);
    status = chunk_keep(catalog, &target, &op->error);
    if (status != HF_OK)
        return status;
    unsigned before = catalog_cascade(catalog);
    struct grave grave = bury_sources(catalog, op, target.key, sources, evidence);
    catalog_sweep_live(catalog);
    if (grave.count > 0)
        catalog_push_grave(catalog, &grave);
    catalog_push_live(catalog, &target);
    cascade_completed(&catalog->cascade, target.level);
    count_left_behind(catalog, target.level);
    catalog_set_due(catalog, before, evidence);
    op->changed = true;
    return HF_OK;
}

/* ---- All of them --------------------------------------------------------------------- */

/* Writes and reads the catalog, so that all that is left behind in memory is freed. It is the
 * same afterwards, down to what was seen. */
static enum hf_status catalog_renew(struct catalog *catalog, struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(2 * CATALOG_BYTES_READ_MAX);
    struct catalog *fresh = NULL;
    enum hf_status status = HF_UNAVAILABLE;
    if (catalog_encode(catalog, VIEW(""), &text))
        status =
            catalog_decode(buffer_view(&text), (struct mono_time){ 0 }, NULL, &fresh, error);
    else
        error_no_memory(error);
    buffer_release(&text);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < catalog->grave_count; i++) {
        fresh->graves[i].seen = catalog->graves[i].seen;
        fresh->graves[i].unwritten = catalog->graves[i].unwritten;
    }
    for (size_t i = 0; i < catalog->removal_count; i++) {
        fresh->removals[i].seen = catalog->removals[i].seen;
        fresh->removals[i].unwritten = catalog->removals[i].unwritten;
    }
    fresh->inside->unwritten = catalog->inside->unwritten;
    struct catalog old = *catalog;
    *catalog = *fresh;
    *fresh = old;
    catalog_free(fresh);
    return HF_OK;
}

static enum hf_status dispatch(struct catalog *catalog, struct catalog_op *op,
                               const struct evidence *evidence)
{
    switch (op->kind) {
    case CATALOG_ADD: return catalog_apply_add(catalog, op, evidence);
    case CATALOG_COMMIT: return catalog_apply_commit(catalog, op, evidence);
    case CATALOG_CONDEMN: return catalog_apply_condemn(catalog, op, evidence);
    case CATALOG_RETIRE: return catalog_apply_retire(catalog, op, evidence);
    case CATALOG_TEND: return catalog_apply_tend(catalog, op, evidence);
    case CATALOG_UNDELETE: return catalog_apply_undelete(catalog, op, evidence);
    case CATALOG_QUARANTINE: return catalog_apply_quarantine(catalog, op, evidence);
    case CATALOG_SPLIT: return catalog_apply_split(catalog, op, evidence);
    case CATALOG_SET: return catalog_apply_set(catalog, op, evidence);
    }
    check_unreachable();
}

enum hf_status catalog_apply(struct catalog *catalog, struct catalog_op *op,
                             const struct evidence *evidence)
{
    op->changed = op->already = op->full = false;
    op->moved = 0;
    error_clear(&op->error);
    size_t used = catalog->live_bytes + catalog->dead_bytes;
    if (catalog->inside->spent > 2 * used + GARBAGE_MAX) {
        enum hf_status status = catalog_renew(catalog, &op->error);
        if (status == HF_UNAVAILABLE)
            return status;
        error_clear(&op->error);
    }
    return dispatch(catalog, op, evidence);
}
