/* SPDX-License-Identifier: Apache-2.0 */
/* table_checker.c: parses a lease table and compares scopes as docs/formats.md describes them. It
 * uses no code from src/lease, so it does not share its bugs. */
#include "sim/checkers/table_checker.h"

#include "base/check.h"
#include "base/json.h"
#include "base/parse.h"

#include <stdlib.h>

/* ---- Scopes -------------------------------------------------------------------------- */

static bool read_number(struct view text, uint64_t *ret_number)
{
    return parse_u64(text, UINT64_MAX, ret_number, NULL) == HF_OK;
}

/* "7:0-4096" or "7:0-". */
static bool read_range(struct view text, struct checked_scope *scope)
{
    struct view inode = view_cut(&text, ':');
    struct view start = view_cut(&text, '-');
    scope->end = UINT64_MAX;
    return read_number(inode, &scope->inode) && read_number(start, &scope->start) &&
           (text.size == 0 || read_number(text, &scope->end));
}

bool checked_scope_read(struct view text, struct checked_scope *ret_scope)
{
    static const char *const kinds[] = {
        [CHECKED_NAMED] = "named", [CHECKED_PATH] = "path",         [CHECKED_TREE] = "tree",
        [CHECKED_INODE] = "inode", [CHECKED_RANGE] = "range",       [CHECKED_CHUNK] = "chunk",
        [CHECKED_PIN] = "pin",     [CHECKED_SNAPSHOT] = "snapshot",
    };
    struct view name = text;
    struct view kind = view_cut(&name, ':');
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!view_equal(kind, view_of(kinds[i])))
            continue;
        *ret_scope = (struct checked_scope){ .kind = (enum checked_kind)i, .name = name };
        if (i == CHECKED_INODE)
            return read_number(name, &ret_scope->inode);
        return i != CHECKED_RANGE || read_range(name, ret_scope);
    }
    *ret_scope = (struct checked_scope){ .kind = CHECKED_NAMED, .name = text };
    return true;
}

/* Whether a path is the root of the tree, or under it. */
static bool is_under(struct view path, struct view tree)
{
    bool root = view_equal(tree, VIEW("/"));
    return view_starts_with(path, tree) &&
           (root || path.size == tree.size || path.data[tree.size] == '/');
}

static bool paths_conflict(const struct checked_scope *a, const struct checked_scope *b)
{
    return view_equal(a->name, b->name) ||
           (a->kind == CHECKED_TREE && is_under(b->name, a->name)) ||
           (b->kind == CHECKED_TREE && is_under(a->name, b->name));
}

static bool inodes_conflict(const struct checked_scope *a, const struct checked_scope *b)
{
    bool whole = a->kind == CHECKED_INODE || b->kind == CHECKED_INODE;
    return a->inode == b->inode && (whole || (a->start < b->end && b->start < a->end));
}

static bool scopes_conflict(const struct checked_scope *a, const struct checked_scope *b)
{
    static const int family[] = {
        [CHECKED_NAMED] = 0, [CHECKED_PATH] = 1,  [CHECKED_TREE] = 1, [CHECKED_INODE] = 2,
        [CHECKED_RANGE] = 2, [CHECKED_CHUNK] = 3, [CHECKED_PIN] = 4,  [CHECKED_SNAPSHOT] = 4,
    };
    if (family[a->kind] != family[b->kind] || family[a->kind] == 4)
        return false;
    switch (family[a->kind]) {
    case 1: return paths_conflict(a, b);
    case 2: return inodes_conflict(a, b);
    default: return view_equal(a->name, b->name);
    }
}

bool checked_conflict(const struct checked_wish *a, const struct checked_wish *b)
{
    if (a->scope_count == 0 || b->scope_count == 0)
        return true;
    if (a->mode == CHECKED_SHARED && b->mode == CHECKED_SHARED)
        return false;
    for (size_t i = 0; i < a->scope_count; i++)
        for (size_t k = 0; k < b->scope_count; k++)
            if (scopes_conflict(&a->scopes[i], &b->scopes[k]))
                return true;
    return false;
}

bool checked_share_slots(const struct checked_wish *a, const struct checked_wish *b)
{
    return a->mode == CHECKED_SLOTS && b->mode == CHECKED_SLOTS && checked_conflict(a, b);
}

/* ---- Reading ------------------------------------------------------------------------- */

/* Adds the scopes of "chunks" or "scopes". */
static void read_scopes(struct json_reader *reader, bool chunks, struct checked_wish *wish)
{
    struct view text;
    for (json_enter_array(reader); json_next_element(reader);) {
        struct checked_scope scope = { .kind = CHECKED_CHUNK };
        if (!json_take_plain(reader, &text))
            return;
        scope.name = text;
        if (wish->scope_count == CHECKED_SCOPES_MAX ||
            (!chunks && !checked_scope_read(text, &scope))) {
            json_fail(reader, "scopes that the checker cannot read");
            return;
        }
        wish->scopes[wish->scope_count++] = scope;
    }
}

static void read_mode(struct json_reader *reader, struct checked_wish *wish)
{
    struct view text;
    if (!json_take_plain(reader, &text))
        return;
    wish->mode = view_equal(text, VIEW("shared"))  ? CHECKED_SHARED
                 : view_equal(text, VIEW("slots")) ? CHECKED_SLOTS
                                                   : CHECKED_EXCLUSIVE;
}

static void read_members(struct json_reader *r, struct checked_entry *entry)
{
    struct view name, raw;
    for (json_enter_object(r); json_next_member(r, &name);) {
        if (view_equal(name, VIEW("lease_id")))
            json_take_plain(r, &entry->id);
        else if (view_equal(name, VIEW("token")))
            json_take_u64(r, UINT64_MAX, &entry->token);
        else if (view_equal(name, VIEW("renewals")))
            json_take_u64(r, UINT64_MAX, &entry->renewals);
        else if (view_equal(name, VIEW("ttl_ms")))
            json_take_u64(r, UINT64_MAX, &entry->ttl_ms);
        else if (view_equal(name, VIEW("poll_ms")))
            json_take_u64(r, UINT64_MAX, &entry->poll_ms);
        else if (view_equal(name, VIEW("expires_us")))
            json_take_i64(r, &entry->expires_us);
        else if (view_equal(name, VIEW("slots")))
            json_take_u64(r, UINT64_MAX, &entry->wish.slots);
        else if (view_equal(name, VIEW("chunks")))
            read_scopes(r, /* chunks */ true, &entry->wish);
        else if (view_equal(name, VIEW("scopes")))
            read_scopes(r, /* chunks */ false, &entry->wish);
        else if (view_equal(name, VIEW("mode")))
            read_mode(r, &entry->wish);
        else if (view_equal(name, VIEW("note")))
            json_skip(r, &entry->note);
        else if (view_equal(name, VIEW("status"))) {
            if (json_take_plain(r, &entry->status))
                entry->active = view_equal(entry->status, VIEW("active"));
        } else
            json_skip(r, &raw);
    }
}

static void read_entry(struct json_reader *r, struct checked_entry *entry)
{
    *entry = (struct checked_entry){ .id = VIEW("") };
    json_peek(r); /* skips space: the entry starts here */
    const char *start = r->at;
    read_members(r, entry);
    entry->bytes = (struct view){ start, (size_t)(r->at - start) };
    entry->wish_told = entry->wish.scope_count > 0;
}

/* Moves a view of part of an entry's bytes to an identical copy of these bytes. */
static void move(struct view *part, const char *from, const char *to)
{
    if (part->size > 0)
        part->data = to + (part->data - from);
}

/* Copies an entry that was parsed before, with views into its new bytes. */
static void copy_entry(struct checked_entry *entry, const struct checked_entry *before,
                       const char *bytes)
{
    const char *from = before->bytes.data;
    *entry = *before;
    entry->reserved = false; /* set by mark_reserved */
    move(&entry->bytes, from, bytes);
    move(&entry->id, from, bytes);
    move(&entry->status, from, bytes);
    move(&entry->note, from, bytes);
    for (size_t i = 0; entry->wish_told && i < entry->wish.scope_count; i++)
        move(&entry->wish.scopes[i].name, from, bytes);
}

/* A list of entries, and the corresponding list of the previous version. */
struct entries {
    struct checked_entry *entries;
    size_t count;
    const struct checked_entry *before;
    size_t before_count, before_next; /* earlier ones were found again, or are gone */
};

static struct checked_entry *add_entry(struct entries *list)
{
    if ((list->count & (list->count - 1)) == 0) {
        size_t room = list->count > 0 ? 2 * list->count : 1;
        list->entries = realloc(list->entries, room * sizeof *list->entries);
        check(list->entries);
    }
    return &list->entries[list->count++];
}

/* Reuses an entry of the previous version if its bytes are the same. */
static bool take_same(struct json_reader *r, struct entries *list, size_t index)
{
    const struct checked_entry *before = &list->before[index];
    if (!json_take_same(r, before->bytes))
        return false;
    copy_entry(add_entry(list), before, r->at - before->bytes.size);
    return true;
}

static void read_lease(struct json_reader *r, struct entries *list, struct view id)
{
    size_t index = list->before_next;
    while (index < list->before_count && !view_equal(list->before[index].id, id))
        index++;
    bool known = index < list->before_count;
    if (known)
        list->before_next = index + 1;
    if (!known || !take_same(r, list, index))
        read_entry(r, add_entry(list));
}

static void read_waiter(struct json_reader *r, struct entries *list)
{
    size_t index = list->before_next;
    while (index < list->before_count && !take_same(r, list, index))
        index++;
    if (index < list->before_count)
        list->before_next = index + 1;
    else
        read_entry(r, add_entry(list));
}

static void read_leases(struct json_reader *r, struct checked_version *version,
                        const struct checked_version *before)
{
    struct entries list = { .before = before ? before->leases : NULL,
                            .before_count = before ? before->lease_count : 0 };
    struct view id;
    for (json_enter_object(r); json_next_member(r, &id);)
        read_lease(r, &list, id);
    version->leases = list.entries;
    version->lease_count = list.count;
}

static void read_waiters(struct json_reader *r, struct checked_version *version,
                         const struct checked_version *before)
{
    struct entries list = { .before = before ? before->waiters : NULL,
                            .before_count = before ? before->waiter_count : 0 };
    for (json_enter_array(r); json_next_element(r);)
        read_waiter(r, &list);
    version->waiters = list.entries;
    version->waiter_count = list.count;
}

/* Skips a member whose meaning is not checked. Checks its syntax, unless its bytes are
 * unchanged. */
static void pass_over(struct json_reader *r, struct view before, struct view *ret_bytes)
{
    if (before.size > 0 && json_take_same(r, before))
        *ret_bytes = (struct view){ r->at - before.size, before.size };
    else
        json_skip(r, ret_bytes);
}

/* `reserved` is a list of ids, as raw text. In the table it precedes the entries with these ids. */
static void mark_reserved(struct checked_version *version, struct view reserved)
{
    struct json_reader r = json_read(reserved);
    struct view id;
    for (json_enter_array(&r); json_next_element(&r) && json_take_plain(&r, &id);)
        for (size_t i = 0; i < version->waiter_count; i++)
            if (view_equal(version->waiters[i].id, id))
                version->waiters[i].reserved = true;
}

static bool read_version(struct checked_version *version, struct view text,
                         const struct checked_version *before)
{
    struct json_reader r = json_read(text);
    struct checked_entry wanted = { .id = VIEW("") };
    struct view name, format, raw, reserved = VIEW("[]");
    version->foreign = true;
    for (json_enter_object(&r); json_next_member(&r, &name);) {
        if (view_equal(name, VIEW("format")))
            version->foreign = !json_take_plain(&r, &format);
        else if (view_equal(name, VIEW("next_token")))
            json_take_u64(&r, UINT64_MAX, &version->next_token);
        else if (view_equal(name, VIEW("reserved")))
            json_skip(&r, &reserved);
        else if (view_equal(name, VIEW("missed")))
            json_take_u64(&r, UINT64_MAX, &version->missed);
        else if (view_equal(name, VIEW("leases")) && !version->leases)
            read_leases(&r, version, before);
        else if (view_equal(name, VIEW("waiters")) && !version->waiters)
            read_waiters(&r, version, before);
        else if (view_equal(name, VIEW("settings")))
            pass_over(&r, before ? before->settings : VIEW(""), &version->settings);
        else if (view_equal(name, VIEW("audit")))
            pass_over(&r, before ? before->audit : VIEW(""), &version->audit);
        else if (view_equal(name, VIEW("wanted")))
            read_entry(&r, &wanted);
        else
            json_skip(&r, &raw);
    }
    for (size_t i = 0; i < version->waiter_count; i++)
        if (!version->waiters[i].wish_told) {
            version->waiters[i].wish = wanted.wish;
            version->waiters[i].poll_ms = wanted.poll_ms;
        }
    mark_reserved(version, reserved);
    return json_end(&r);
}

struct checked_version *checked_version_read(struct view text,
                                             const struct checked_version *before)
{
    struct checked_version *version = calloc(1, sizeof *version);
    check(version);
    version->text = malloc(text.size + 1);
    check(version->text);
    memcpy(version->text, text.data, text.size);
    if (read_version(version, (struct view){ version->text, text.size }, before))
        return version;
    checked_version_free(version);
    return NULL;
}

void checked_version_free(struct checked_version *version)
{
    if (!version)
        return;
    free(version->leases);
    free(version->waiters);
    free(version->text);
    free(version);
}

const struct checked_entry *checked_by_token(const struct checked_version *version,
                                             uint64_t token)
{
    for (size_t i = 0; version && i < version->lease_count; i++)
        if (version->leases[i].token == token)
            return &version->leases[i];
    return NULL;
}

const struct checked_entry *checked_waiter(const struct checked_version *version,
                                           struct view id)
{
    for (size_t i = 0; version && i < version->waiter_count; i++)
        if (view_equal(version->waiters[i].id, id))
            return &version->waiters[i];
    return NULL;
}
