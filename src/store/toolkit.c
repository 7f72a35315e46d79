/* SPDX-License-Identifier: Apache-2.0 */
/* toolkit.c: conditions, ranges, waiting and listing for our own back ends. The rules for which
 * call succeeds are in this one place, so that the memory, directory and SQLite stores cannot
 * differ. */
#include "store/toolkit.h"

#include "base/check.h"
#include "file/bytes.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

bool store_is_forked(pid_t opened_by, struct hf_error *error)
{
    if (getpid() == opened_by)
        return false;
    error_set(error, HF_INVALID, "the store was opened before fork; open it again");
    return true;
}

bool file_has_name(int fd, int folder, const char *name)
{
    struct stat ours, named;
    return fstat(fd, &ours) == 0 && fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

mode_t mode_of_writers(mode_t mode)
{
    return mode & (0222 | (mode & 0222) << 1);
}

void file_make_like(int fd, const struct stat *like, mode_t mode)
{
    struct stat made;
    /* Separately, because a process that may not change the owner may still change the group. */
    (void)!fchown(fd, (uid_t)-1, like->st_gid);
    (void)!fchown(fd, like->st_uid, (gid_t)-1);
    if (fstat(fd, &made) == 0)
        (void)!fchmod(fd, mode | (made.st_mode & S_ISGID));
}

struct mono_time local_deadline(struct env *env, struct mono_time asked)
{
    return asked.us != 0 ? asked : mono_add(env_now(env), SPAN_MS(STORE_TIMEOUT_MS));
}

enum hf_status condition_check(const struct condition *condition, const struct etag *current,
                               struct hf_error *error)
{
    switch (condition->kind) {
    case CONDITION_ALWAYS: return error_clear(error);
    case CONDITION_ABSENT:
        if (!current)
            return error_clear(error);
        return error_set(error, HF_CONFLICT, "the object already exists");
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

enum hf_status get_check(struct get_call *call, const struct object_info *current,
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
                         "the range starts at byte %" PRIu64 ", and the object has %" PRIu64
                         " bytes",
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
                         "the object has %" PRIu64 " bytes, more than the %zu requested",
                         call->info.size, body->max);
    if (!buffer_append(body, bytes))
        return error_no_memory(&call->error);
    return HF_OK;
}

enum hf_status get_append_file(struct get_call *call, int fd, uint64_t length,
                               const char *why_short)
{
    size_t got;
    struct buffer *body = call->body;
    if (length > body->max - body->size)
        return get_append(call, (struct view){ NULL, (size_t)length }); /* sets the error */
    if (!buffer_reserve(body, (size_t)length))
        return error_no_memory(&call->error);
    if (file_read_at(fd, body->data + body->size, (size_t)length, call->offset, &got,
                     &call->error) != HF_OK)
        return call->error.status;
    if (got < length)
        return error_set(&call->error, HF_CORRUPT, "%s", why_short);
    body->size += got;
    return HF_OK;
}

/* ---- Waiting ------------------------------------------------------------------------- */

/* Most holders release their lock after microseconds; some hold it during a disk write. */
#define PAUSE_FIRST SPAN_US(50)

struct patience patience_until(struct env *env, struct mono_time deadline, struct span most)
{
    return (struct patience){ env, deadline, PAUSE_FIRST, most };
}

bool patience_wait(struct patience *patience)
{
    struct mono_time now = env_now(patience->env);
    if (!mono_before(now, patience->deadline))
        return false;
    struct span half = SPAN_US(patience->pause.us / 2);
    struct span pause = SPAN_US(half.us + env_jitter(patience->env, half).us);
    env_sleep_until(patience->env, mono_earlier(mono_add(now, pause), patience->deadline));
    patience->pause = span_smaller(SPAN_US(patience->pause.us * 2), patience->most);
    return true;
}

/* ---- Listing ------------------------------------------------------------------------- */

/* The name of a key in this listing: the key itself, or, if a delimiter follows the prefix, the
 * part up to and including that delimiter. */
static struct view name_of(const struct list_call *call, struct view key)
{
    if (call->delimiter.size == 0)
        return key;
    struct view behind = view_from(key, call->prefix.size);
    size_t at = view_find(behind, call->delimiter.data[0]);
    return at == behind.size ? key : view_first(key, call->prefix.size + at + 1);
}

bool list_is_group(const struct list_call *call, struct view name)
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

/* Whether a name is a group that can be skipped in one step. The byte after 0xff does not
 * exist, so groups with that delimiter are walked key by key. */
static bool can_jump(const struct list_call *call, struct view name)
{
    return list_is_group(call, name) && (unsigned char)call->delimiter.data[0] < 0xff;
}

/* Moves the cursor past a name, or, if the name is a group, past all keys that start with it. */
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

static struct list_entry *add_list_entry(struct list_call *call, struct view name)
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
        struct list_entry *entry = add_list_entry(call, name);
        if (!entry)
            return false;
        entry->is_prefix = name.size < key.size || list_is_group(call, name);
        if (!entry->is_prefix)
            entry->info = *info;
    }
    move_behind(call, cursor, can_jump(call, name) ? name : key);
    return true;
}
