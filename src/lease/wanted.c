/* SPDX-License-Identifier: Apache-2.0 */
/* wanted.c: checks requests and compares their terms. A request is refused if its lease would not
 * read back from the table as intended. */
#include "base/json.h"
#include "base/mutant.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "lease/table_inside.h"

#include <inttypes.h>

/* A note is inserted into the table unchanged, so it must be exactly one JSON value, and not
 * nested so deeply that the table could no longer be read. */
bool table_takes_note(struct view note)
{
    struct json_reader reader = json_read(note);
    struct view raw;
    reader.depth_max -= NOTE_DEPTH; /* for the levels of the table around it */
    bool good = note.size <= NOTE_BYTES_MAX && json_skip(&reader, &raw);
    return note.size == 0 || (good && json_end(&reader));
}

/* Ids are also member names and are compared byte by byte, so they must not need escapes. */
static bool is_id(struct view id, size_t max)
{
    for (size_t i = 0; i < id.size; i++)
        if (id.data[i] < 0x20 || id.data[i] > 0x7e || id.data[i] == '"' || id.data[i] == '\\')
            return false;
    return id.size <= max;
}

/* Every string in a lease must read back unchanged. */
static enum hf_status check_texts(const struct lease_request *wanted, struct table_op *op)
{
    if (wanted->id.size == 0 || !is_id(wanted->id, HOLDER_BYTES_MAX) ||
        !is_id(wanted->session, NONCE_SIZE))
        return error_set(&op->error, HF_INVALID,
                         "an id or session must be short printable ASCII text without quotes "
                         "or backslashes");
    struct view start = view_first(wanted->id, view_find(wanted->id, '-'));
    if (op->wait && !view_equal(start, wanted->session))
        return error_set(&op->error, HF_INVALID, "the id of a waiter must be <session>-<n>");
    if (wanted->holder.size > HOLDER_BYTES_MAX)
        return error_set(&op->error, HF_INVALID, "a holder's name can have at most %d bytes",
                         HOLDER_BYTES_MAX);
    if (wanted->output.size > OUTPUT_BYTES_MAX || !utf8_is_text(wanted->output))
        return error_set(&op->error, HF_INVALID,
                         "an output's name must be UTF-8 text of at most %d bytes",
                         OUTPUT_BYTES_MAX);
    if (!table_takes_note(wanted->note))
        return error_set(&op->error, HF_INVALID, "a note must be JSON of at most %d bytes",
                         NOTE_BYTES_MAX);
    return HF_OK;
}

enum hf_status wanted_check(const struct lease_table *table, struct table_op *op)
{
    const struct lease_wish *wanted = &op->wanted->wish;
    const struct span most = table->settings.ttl_max;
    bool may_be_raised = most.us != SHARD_TTL_MAX.us && wanted->ttl.us > most.us;
    if (ttl_check(wanted->ttl, SPAN_MS(LEASE_TTL_MS_MIN), most,
                  may_be_raised ? "a longer ttl_max_ms allows more, up to 1d" : NULL,
                  &op->error) != HF_OK)
        return op->error.status;
    if (wanted->ttl.us % 1000 != 0 || wanted->poll.us % 1000 != 0)
        return error_set(&op->error, HF_INVALID,
                         "a ttl or poll interval must be a whole number of milliseconds");
    if (wanted->scope_count == 0 || wanted->scope_count > LEASE_SCOPES_MAX)
        return error_set(&op->error, HF_INVALID, "a lease must have 1 to %d scopes",
                         LEASE_SCOPES_MAX);
    if (wanted->slots > UINT32_MAX || wanted->level > UINT32_MAX)
        return error_set(&op->error, HF_INVALID, "slots and levels must be at most %" PRIu32,
                         UINT32_MAX);
    if ((wanted->mode == LEASE_SLOTS) != (wanted->slots > 0) ||
        (wanted->mode == LEASE_SLOTS && wanted->scope_count != 1))
        return error_set(&op->error, HF_INVALID,
                         "slots need exactly one scope, and their number must be at least 1");
    return check_texts(op->wanted, op);
}

/* How the modes of two leases with conflicting scopes relate. */
enum mode_relation {
    EXCLUDE,
    COEXIST,
    COUNTED, /* they exclude each other, except as slots of one semaphore, up to their number */
};

static const enum mode_relation mode_relations[][3] = {
    /* columns: exclusive, shared, slots */
    [LEASE_EXCLUSIVE] = { EXCLUDE, EXCLUDE, EXCLUDE },
    [LEASE_SHARED] = { EXCLUDE, COEXIST, EXCLUDE },
    [LEASE_SLOTS] = { EXCLUDE, EXCLUDE, COUNTED },
};

static bool any_scopes_conflict(const struct lease_wish *a, const struct lease_wish *b)
{
    for (size_t i = 0; i < a->scope_count; i++)
        for (size_t k = 0; k < b->scope_count; k++)
            if (scope_conflicts(&a->scopes[i], &b->scopes[k]))
                return true;
    return false;
}

bool wishes_conflict(const struct lease_wish *a, const struct lease_wish *b)
{
    if (a->scope_count == 0 || b->scope_count == 0)
        return true; /* a barrier */
    bool conflict = mode_relations[a->mode][b->mode] != COEXIST && any_scopes_conflict(a, b);
    MUTANT(mutant_overlooks_conflict(a, b, &conflict));
    return conflict;
}

bool wishes_share_slots(const struct lease_wish *a, const struct lease_wish *b)
{
    return mode_relations[a->mode][b->mode] == COUNTED && a->slots == b->slots &&
           a->scope_count == 1 && b->scope_count == 1 &&
           scope_equal(&a->scopes[0], &b->scopes[0]);
}

/* Starts at the same position in the other list, because the scopes are usually in the same
 * order. */
static bool has_scope(const struct lease_wish *wish, const struct scope *scope, size_t start)
{
    for (size_t i = 0; i < wish->scope_count; i++)
        if (scope_equal(&wish->scopes[(start + i) % wish->scope_count], scope))
            return true;
    return false;
}

bool wishes_same_scopes(const struct lease_wish *a, const struct lease_wish *b)
{
    if (a->scope_count != b->scope_count)
        return false;
    if (a->scopes == b->scopes)
        return true;
    for (size_t i = 0; i < a->scope_count; i++)
        if (!has_scope(b, &a->scopes[i], i) || !has_scope(a, &b->scopes[i], i))
            return false;
    return true;
}

bool wishes_alike(const struct lease_wish *a, const struct lease_wish *b)
{
    return a->mode == b->mode && a->slots == b->slots && wishes_same_scopes(a, b);
}
