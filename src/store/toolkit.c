#include "store/toolkit.h"

#include "base/check.h"

#include <inttypes.h>

enum hf_status condition_judge(const struct condition *condition, const struct etag *current,
                               struct hf_error *error)
{
    switch (condition->kind) {
    case CONDITION_ALWAYS: return error_clear(error);
    case CONDITION_ABSENT:
        if (!current)
            return error_clear(error);
        return error_set(error, HF_CONFLICT, "the object exists already");
    case CONDITION_MATCH:
        if (!current)
            return error_set(error, HF_NOT_FOUND, "the object is gone");
        if (etag_equal(&condition->etag, current))
            return error_clear(error);
        return error_set(error, HF_CONFLICT, "the object has changed: its ETag is %.*s",
                         VIEW_ARGS(etag_view(current)));
    }
    check_unreachable();
}

enum hf_status get_judge(struct get_call *call, const struct object_info *current,
                         uint64_t *ret_length)
{
    if (!current)
        return error_set(&call->error, HF_NOT_FOUND, "no such object");
    call->info = *current;
    if (call->none_match.size > 0 && etag_equal(&call->none_match, &current->etag))
        return error_set(&call->error, HF_NOT_MODIFIED, "not modified");
    if (call->match.size > 0 && !etag_equal(&call->match, &current->etag))
        return error_set(&call->error, HF_CONFLICT, "the object has changed: its ETag is %.*s",
                         VIEW_ARGS(etag_view(&current->etag)));
    if (call->offset > 0 && call->offset >= current->size)
        return error_set(&call->error, HF_INVALID,
                         "the range starts at byte %" PRIu64 " of an object of %" PRIu64,
                         call->offset, current->size);
    uint64_t left = current->size - call->offset;
    *ret_length = call->length > 0 && call->length < left ? call->length : left;
    return error_clear(&call->error);
}

enum hf_status get_append(struct get_call *call, struct view bytes)
{
    struct buffer *body = call->body;
    if (bytes.size > body->max - body->size)
        return error_set(&call->error, HF_INVALID,
                         "the object has %" PRIu64 " bytes, more than the %zu asked for",
                         call->info.size, body->max);
    if (!buffer_append(body, bytes))
        return error_no_memory(&call->error);
    return HF_OK;
}

void get_fail_all(struct get_call *calls, size_t count, const struct hf_error *error)
{
    for (size_t i = 0; i < count; i++)
        calls[i].error = *error;
}

void put_fail_all(struct put_call *calls, size_t count, const struct hf_error *error)
{
    for (size_t i = 0; i < count; i++)
        calls[i].error = *error;
}

void delete_fail_all(struct delete_call *calls, size_t count, const struct hf_error *error)
{
    for (size_t i = 0; i < count; i++)
        calls[i].error = *error;
}

/* ---- Listing ------------------------------------------------------------------------- */

/* The name under which a key stands in this listing: itself, or, with a delimiter behind the
 * prefix, its start up to that. */
static struct view name_of(const struct list_call *call, struct view key)
{
    if (call->delimiter.size == 0)
        return key;
    struct view behind = view_from(key, call->prefix.size);
    size_t at = view_find(behind, call->delimiter.data[0]);
    return at == behind.size ? key : view_first(key, call->prefix.size + at + 1);
}

static bool is_group(const struct list_call *call, struct view name)
{
    return call->delimiter.size > 0 && name.size > call->prefix.size &&
           name.data[name.size - 1] == call->delimiter.data[0];
}

static void set_cursor(struct list_cursor *cursor, struct view from, bool beyond)
{
    check(from.size < sizeof cursor->space);
    if (from.size > 0)
        memmove(cursor->space, from.data, from.size);
    cursor->from = (struct view){ cursor->space, from.size };
    cursor->beyond = beyond;
}

/* Whether a name stands for a group that can be jumped over. A delimiter of 0xff has no successor
 * in its place, so its groups are walked through, key by key. */
static bool can_jump(const struct list_call *call, struct view name)
{
    return is_group(call, name) && (unsigned char)call->delimiter.data[0] < 0xff;
}

/* The next place behind a name: behind all that starts with it, if it stands for a group. */
static void move_behind(const struct list_call *call, struct list_cursor *cursor,
                        struct view name)
{
    set_cursor(cursor, name, /* beyond */ true);
    if (can_jump(call, name)) {
        cursor->space[name.size - 1]++;
        cursor->beyond = false;
    }
}

void list_start(const struct list_call *call, struct list_cursor *cursor)
{
    if (view_compare(call->after, call->prefix) < 0 || call->after.size == 0)
        set_cursor(cursor, call->prefix, /* beyond */ false);
    else
        move_behind(call, cursor, call->after);
}

static struct list_entry *add_entry(struct list_call *call, struct view name)
{
    struct view copy = arena_copy(&call->arena, name);
    if (!copy.data) {
        error_no_memory(&call->error);
        return NULL;
    }
    struct list_entry *entry = &call->entries[call->count++];
    *entry = (struct list_entry){ .key = copy };
    return entry;
}

bool list_offer(struct list_call *call, struct list_cursor *cursor, struct view key,
                const struct object_info *info)
{
    if (!view_starts_with(key, call->prefix))
        return false;
    struct view name = name_of(call, key);
    bool seen = call->count > 0 && view_equal(call->entries[call->count - 1].key, name);
    if (!seen && view_compare(name, call->after) > 0) {
        if (call->count == call->max) {
            call->more = true;
            return false;
        }
        struct list_entry *entry = add_entry(call, name);
        if (!entry)
            return false;
        entry->is_prefix = name.size < key.size || is_group(call, name);
        if (!entry->is_prefix)
            entry->info = *info;
    }
    move_behind(call, cursor, can_jump(call, name) ? name : key);
    return true;
}
