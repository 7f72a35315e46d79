/* wanted.c: whether what is asked for can stand in a table. */
#include "base/json.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "lease/table_inside.h"

#include <inttypes.h>

/* A note is spliced in as it stands, so it must be one JSON value and no more; and not so deep
 * that a table with it could not be read. */
bool table_takes_note(struct view note)
{
    struct json_reader reader = json_read(note);
    struct view raw;
    reader.depth = NOTE_DEPTH; /* as if what is around it had been entered */
    bool good = note.size <= NOTE_BYTES_MAX && json_skip(&reader, &raw);
    reader.depth = 0;
    return note.size == 0 || (good && json_end(&reader));
}

/* Ids are also names of members, and are compared as they stand there. */
static bool is_id(struct view id, size_t max)
{
    for (size_t i = 0; i < id.size; i++)
        if (id.data[i] < 0x20 || id.data[i] > 0x7e || id.data[i] == '"' || id.data[i] == '\\')
            return false;
    return id.size <= max;
}

/* Whatever is granted must be read back as it was meant. */
static enum hf_status check_texts(const struct lease *wanted, struct table_op *op)
{
    if (wanted->id.size == 0 || !is_id(wanted->id, HOLDER_BYTES_MAX) ||
        !is_id(wanted->session, NONCE_SIZE))
        return error_set(&op->error, HF_INVALID, "an id or session is short plain text");
    struct view start = view_first(wanted->id, view_find(wanted->id, '-'));
    if (op->wait && !view_equal(start, wanted->session))
        return error_set(&op->error, HF_INVALID, "the id of one who waits is <session>-<n>");
    if (wanted->holder.size > HOLDER_BYTES_MAX)
        return error_set(&op->error, HF_INVALID, "a holder's name has at most %d bytes",
                         HOLDER_BYTES_MAX);
    if (wanted->output.size > OUTPUT_BYTES_MAX || !utf8_is_text(wanted->output))
        return error_set(&op->error, HF_INVALID,
                         "an output's name is UTF-8 text of at most %d bytes",
                         OUTPUT_BYTES_MAX);
    if (!table_takes_note(wanted->note))
        return error_set(&op->error, HF_INVALID, "a note is JSON of at most %d bytes",
                         NOTE_BYTES_MAX);
    return HF_OK;
}

enum hf_status wanted_check(const struct lease_table *table, struct table_op *op)
{
    const struct lease *wanted = op->wanted;
    const struct span most = table->settings.ttl_max;
    bool may_be_raised = most.us != SHARD_TTL_MAX.us && wanted->ttl.us > most.us;
    if (ttl_check(wanted->ttl, SPAN_MS(LEASE_TTL_MS_MIN), most,
                  may_be_raised ? "--max-ttl SPAN (in C ttl_max_ms) allows more, up to 1d"
                                : NULL,
                  &op->error) != HF_OK)
        return op->error.status;
    if (wanted->ttl.us % 1000 != 0 || wanted->poll.us % 1000 != 0)
        return error_set(&op->error, HF_INVALID,
                         "a ttl or poll interval is a whole number of milliseconds");
    if (wanted->scope_count == 0 || wanted->scope_count > LEASE_SCOPES_MAX)
        return error_set(&op->error, HF_INVALID, "a lease has 1 to %d scopes",
                         LEASE_SCOPES_MAX);
    if (wanted->slots > UINT32_MAX || wanted->level > UINT32_MAX)
        return error_set(&op->error, HF_INVALID, "slots and levels are at most %" PRIu32,
                         UINT32_MAX);
    if ((wanted->mode == LEASE_SLOTS) != (wanted->slots > 0) ||
        (wanted->mode == LEASE_SLOTS && wanted->scope_count != 1))
        return error_set(&op->error, HF_INVALID, "slots are of one scope, and at least one");
    return check_texts(wanted, op);
}
