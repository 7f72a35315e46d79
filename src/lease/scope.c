#include "lease/scope.h"

#include "base/check.h"
#include "base/layout.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/rule.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Names --------------------------------------------------------------------------- */

static enum hf_status suggest_lower_case(struct view name, struct hf_error *error)
{
    char lower[NAME_BYTES_MAX + 1];
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        lower[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    lower[name.size] = '\0';
    return error_set(error, HF_INVALID, "names are lower case: write '%s'", lower);
}

enum hf_status name_check(struct view name, struct hf_error *error)
{
    bool upper = false;
    if (name.size == 0 || name.size > NAME_BYTES_MAX)
        return error_set(error, HF_INVALID, "%s; a name has 1 to %d bytes",
                         name.size == 0 ? "the name is empty" : "the name is too long",
                         NAME_BYTES_MAX);
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool starts_segment = i == 0 || name.data[i - 1] == '/';
        upper = upper || (c >= 'A' && c <= 'Z');
        if (c == '/' && (starts_segment || i + 1 == name.size))
            return error_set(error, HF_INVALID, "'%.*s' has an empty segment", VIEW_ARGS(name));
        if (c == '.' && starts_segment)
            return error_set(error, HF_INVALID,
                             "'%.*s': names that start with a dot are reserved",
                             VIEW_ARGS(name));
        if (c != '/' && !layout_is_name_byte(c) && !(c >= 'A' && c <= 'Z'))
            return error_set(
                error, HF_INVALID,
                "a name may contain a-z, 0-9, '.', '_' and '-', with '/' between parts");
    }
    return upper ? suggest_lower_case(name, error) : HF_OK;
}

/* Bytes that a document cannot hold as they are would come back as another scope: refused. */
static enum hf_status path_check(struct view path, struct hf_error *error)
{
    bool good = path.size > 0 && path.size <= KEY_BYTES_MAX && path.data[0] == '/' &&
                utf8_is_text(path);
    struct view rest = view_from(path, 1);
    bool root = good && rest.size == 0;
    bool more = good && !root;
    while (good && more) {
        more = view_find(rest, '/') < rest.size;
        struct view segment = view_cut(&rest, '/');
        good = segment.size > 0 && !view_equal(segment, VIEW(".")) &&
               !view_equal(segment, VIEW(".."));
    }
    if (good)
        return HF_OK;
    return error_set(error, HF_INVALID,
                     "'%.*s' is not a path like /a/b, without empty, . or .. segments",
                     VIEW_ARGS(view_first(path, 60)));
}

/* ---- Text ---------------------------------------------------------------------------- */

struct kind_row {
    const char *prefix;
    enum scope_kind kind;
};

static const struct kind_row kind_rows[] = {
    { "named:", SCOPE_NAMED }, { "path:", SCOPE_PATH },   { "tree:", SCOPE_TREE },
    { "inode:", SCOPE_INODE }, { "range:", SCOPE_RANGE }, { "chunk:", SCOPE_CHUNK },
    { "pin:", SCOPE_PIN },     { "shard:", SCOPE_SHARD },
};
#define KIND_ROWS (sizeof kind_rows / sizeof kind_rows[0])

static enum hf_status parse_range(struct view text, struct scope *scope, struct hf_error *error)
{
    struct view bounds = text;
    struct view inode = view_cut(&bounds, ':');
    bool has_end = view_find(bounds, '-') < bounds.size;
    struct view start = view_cut(&bounds, '-');
    scope->end = SCOPE_END;
    bool good = has_end && parse_u64(inode, UINT64_MAX, &scope->inode, NULL) == HF_OK &&
                parse_u64(start, SCOPE_END - 1, &scope->start, NULL) == HF_OK &&
                (bounds.size == 0 || parse_u64(bounds, SCOPE_END, &scope->end, NULL) == HF_OK);
    if (good && scope->start < scope->end)
        return HF_OK;
    return error_set(error, HF_INVALID,
                     "'%.*s' is not a range; write it like range:7:0-4096 or range:7:0-",
                     VIEW_ARGS(view_first(text, 60)));
}

static enum hf_status key_check(struct view key, struct hf_error *error)
{
    if (key.size < 1 || key.size > KEY_BYTES_MAX)
        return error_set(error, HF_INVALID, "an object name has 1 to %d bytes", KEY_BYTES_MAX);
    if (!utf8_is_text(key))
        return error_set(error, HF_INVALID, "an object name is UTF-8 text without NUL");
    return HF_OK;
}

static enum hf_status shard_check(struct view name, struct hf_error *error)
{
    struct view shard = name;
    struct view index = view_cut(&shard, '/');
    if (layout_index_valid(index) && layout_shard_valid(shard))
        return HF_OK;
    return error_set(
        error, HF_INVALID,
        "'%.*s' is not a shard; write it like shard:domains/a3: the index, a slash, "
        "1 to %d digits of 0-9 a-f",
        VIEW_ARGS(view_first(name, 60)), SHARD_NAME_MAX);
}

static enum hf_status parse_rest(struct view rest, struct scope *scope, struct hf_error *error)
{
    scope->name = rest;
    switch (scope->kind) {
    case SCOPE_NAMED: return name_check(rest, error);
    case SCOPE_PATH:
    case SCOPE_TREE: return path_check(rest, error);
    case SCOPE_INODE: return parse_u64(rest, UINT64_MAX, &scope->inode, error);
    case SCOPE_RANGE: return parse_range(rest, scope, error);
    case SCOPE_CHUNK:
    case SCOPE_PIN: return key_check(rest, error);
    case SCOPE_SHARD: return shard_check(rest, error);
    }
    check_unreachable();
}

/* The row of its kind, or KIND_ROWS. */
static size_t find_kind(struct view text)
{
    size_t row = 0;
    while (row < KIND_ROWS && !view_starts_with(text, view_of(kind_rows[row].prefix)))
        row++;
    return row;
}

bool scope_kind_known(struct view text)
{
    return view_find(text, ':') == text.size || find_kind(text) < KIND_ROWS;
}

enum hf_status scope_parse(struct view text, struct scope *ret_scope, struct hf_error *error)
{
    struct scope scope = { .kind = SCOPE_NAMED };
    struct view rest = text;
    if (view_find(text, ':') < text.size) {
        size_t row = find_kind(text);
        if (row == KIND_ROWS)
            return error_set(
                error, HF_INVALID,
                "'%.*s': a scope is named: path: tree: inode: range: chunk: pin: or shard:",
                VIEW_ARGS(view_first(text, 60)));
        scope.kind = kind_rows[row].kind;
        rest = view_from(text, strlen(kind_rows[row].prefix));
    }
    enum hf_status status = parse_rest(rest, &scope, error);
    if (status == HF_OK)
        *ret_scope = scope;
    return status;
}

/* What most scopes are, and what is written most often. */
static void join(char text[SCOPE_TEXT_MAX + 1], struct view prefix, struct view name)
{
    struct view kept = view_first(name, SCOPE_TEXT_MAX - prefix.size);
    memcpy(text, prefix.data, prefix.size);
    if (kept.size > 0)
        memcpy(text + prefix.size, kept.data, kept.size);
    text[prefix.size + kept.size] = '\0';
}

const char *scope_text(const struct scope *scope, char text[SCOPE_TEXT_MAX + 1])
{
    const char *prefix = kind_rows[scope->kind].prefix;
    check(kind_rows[scope->kind].kind == scope->kind);
    size_t size = SCOPE_TEXT_MAX + 1;
    if (scope->kind == SCOPE_INODE)
        snprintf(text, size, "%s%" PRIu64, prefix, scope->inode);
    else if (scope->kind == SCOPE_RANGE && scope->end == SCOPE_END)
        snprintf(text, size, "%s%" PRIu64 ":%" PRIu64 "-", prefix, scope->inode, scope->start);
    else if (scope->kind == SCOPE_RANGE)
        snprintf(text, size, "%s%" PRIu64 ":%" PRIu64 "-%" PRIu64, prefix, scope->inode,
                 scope->start, scope->end);
    else
        join(text, view_of(prefix), scope->name);
    return text;
}

/* ---- Conflicts ----------------------------------------------------------------------- */

/* Whether `path` is `tree` itself or stands under it. */
static bool is_under(struct view path, struct view tree)
{
    if (tree.size == 1) /* the root */
        return true;
    return view_starts_with(path, tree) &&
           (path.size == tree.size || path.data[tree.size] == '/' || !RULE(TREE_BY_SEGMENT));
}

static bool paths_conflict(const struct scope *a, const struct scope *b)
{
    if (a->kind == SCOPE_TREE && is_under(b->name, a->name))
        return true;
    if (b->kind == SCOPE_TREE && is_under(a->name, b->name) && RULE(TREE_ABOVE_TOO))
        return true;
    return a->kind == SCOPE_PATH && b->kind == SCOPE_PATH && view_equal(a->name, b->name);
}

static bool is_path(const struct scope *scope)
{
    return scope->kind == SCOPE_PATH || scope->kind == SCOPE_TREE;
}

static bool is_inode(const struct scope *scope)
{
    return scope->kind == SCOPE_INODE || scope->kind == SCOPE_RANGE;
}

bool scope_conflicts(const struct scope *a, const struct scope *b)
{
    if (is_path(a) && is_path(b))
        return paths_conflict(a, b);
    if (is_inode(a) && is_inode(b)) {
        bool both_ranges = a->kind == SCOPE_RANGE && b->kind == SCOPE_RANGE;
        return a->inode == b->inode &&
               (!both_ranges || (a->start < b->end && b->start < a->end &&
                                 (RULE(RANGES_OVERLAP) || a->start <= b->start)));
    }
    return a->kind == b->kind && a->kind != SCOPE_PIN && view_equal(a->name, b->name);
}

bool scope_equal(const struct scope *a, const struct scope *b)
{
    if (a->kind != b->kind)
        return false;
    if (is_inode(a))
        return a->inode == b->inode && a->start == b->start && a->end == b->end;
    return view_equal(a->name, b->name);
}

/* ---- Covering ------------------------------------------------------------------------ */

bool scope_covers(const struct scope *a, const struct scope *b)
{
    if (a->kind == SCOPE_TREE && is_path(b))
        return is_under(b->name, a->name);
    if (is_inode(a) && b->kind == SCOPE_RANGE)
        return a->inode == b->inode &&
               (a->kind == SCOPE_INODE || (a->start <= b->start && b->end <= a->end));
    return a->kind != SCOPE_PIN && scope_equal(a, b);
}

bool scope_is_whole_table(const struct scope *scope)
{
    switch (scope->kind) {
    case SCOPE_NAMED:
    case SCOPE_INODE:
    case SCOPE_SHARD: return true;
    case SCOPE_TREE: return scope->name.size == 1; /* the root */
    case SCOPE_PATH:
    case SCOPE_RANGE:
    case SCOPE_CHUNK:
    case SCOPE_PIN: return false;
    }
    check_unreachable();
}

struct scope *scopes_copy(const struct scope *scopes, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += scopes[i].name.size;
    struct scope *copy = malloc((count + 1) * sizeof *copy + bytes);
    if (!copy)
        return NULL;
    char *names = (char *)(copy + count);
    for (size_t i = 0; i < count; i++) {
        struct view name = scopes[i].name;
        copy[i] = scopes[i];
        copy[i].name = (struct view){ names, name.size };
        if (name.size > 0)
            memcpy(names, name.data, name.size);
        names += name.size;
    }
    return copy;
}
