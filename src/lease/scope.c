/* SPDX-License-Identifier: Apache-2.0 */
/* scope.c: the text form of scopes, which scopes conflict, and which names are valid. A text that
 * would not read back as the same scope is refused. */
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
    return error_set(error, HF_INVALID, "names must be lower case: use '%s'", lower);
}

enum hf_status name_check(struct view name, struct hf_error *error)
{
    bool upper = false;
    if (name.size == 0 || name.size > NAME_BYTES_MAX)
        return error_set(error, HF_INVALID, "%s; a name must be 1 to %d bytes long",
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

/* Refuses bytes that JSON cannot represent unchanged, because they would read back as another
 * scope. */
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
    { "pin:", SCOPE_PIN },     { "shard:", SCOPE_SHARD }, { "snapshot:", SCOPE_SNAPSHOT },
};
#define KIND_ROWS (sizeof kind_rows / sizeof kind_rows[0])

static enum hf_status parse_byte_range(struct view text, struct scope *scope,
                                       struct hf_error *error)
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
                     "'%.*s' is not a range; use a form like range:7:0-4096 or range:7:0-",
                     VIEW_ARGS(view_first(text, 60)));
}

static enum hf_status key_check(struct view key, struct hf_error *error)
{
    if (key.size < 1 || key.size > KEY_BYTES_MAX)
        return error_set(error, HF_INVALID, "an object name must be 1 to %d bytes long",
                         KEY_BYTES_MAX);
    if (!utf8_is_text(key))
        return error_set(error, HF_INVALID, "an object name must be UTF-8 text without NUL");
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
        "'%.*s' is not a shard; use a form like shard:domains/a3: the index, a slash, "
        "1 to %d digits of 0-9 a-f",
        VIEW_ARGS(view_first(name, 60)), SHARD_NAME_MAX);
}

static enum hf_status parse_snapshot(struct view text, struct scope *scope,
                                     struct hf_error *error)
{
    struct view generation = text;
    scope->name = view_cut(&generation, ':');
    if (layout_partition_valid(scope->name) &&
        parse_u64(generation, UINT64_MAX, &scope->generation, NULL) == HF_OK)
        return HF_OK;
    return error_set(error, HF_INVALID,
                     "'%.*s' is not a snapshot; use a form like snapshot:events:42: the "
                     "partition, a colon, a generation",
                     VIEW_ARGS(view_first(text, 60)));
}

/* The row of the text's kind, or KIND_ROWS. */
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

static enum hf_status parse_scope_value(struct scope *scope, struct hf_error *error)
{
    struct view text = scope->name;
    switch (scope->kind) {
    case SCOPE_NAMED: return name_check(text, error);
    case SCOPE_PATH:
    case SCOPE_TREE: return path_check(text, error);
    case SCOPE_INODE: return parse_u64(text, UINT64_MAX, &scope->inode, error);
    case SCOPE_RANGE: return parse_byte_range(text, scope, error);
    case SCOPE_CHUNK:
    case SCOPE_PIN: return key_check(text, error);
    case SCOPE_SHARD: return shard_check(text, error);
    case SCOPE_SNAPSHOT: return parse_snapshot(text, scope, error);
    }
    check_unreachable();
}

enum hf_status scope_parse(struct view text, struct scope *ret_scope, struct hf_error *error)
{
    struct scope scope = { .kind = SCOPE_NAMED, .name = text };
    if (view_find(text, ':') < text.size) {
        size_t row = find_kind(text);
        if (row == KIND_ROWS)
            return error_set(error, HF_INVALID,
                             "'%.*s': unknown kind of scope; use named: path: tree: inode: "
                             "range: chunk: pin: shard: or snapshot:",
                             VIEW_ARGS(view_first(text, 60)));
        scope.kind = kind_rows[row].kind;
        scope.name = view_from(text, strlen(kind_rows[row].prefix));
    }
    enum hf_status status = parse_scope_value(&scope, error);
    if (status == HF_OK)
        *ret_scope = scope;
    return status;
}

/* Does not use printf, for speed: most scopes are written here. */
static void join_text(char text[SCOPE_TEXT_MAX + 1], struct view prefix, struct view name)
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
    else if (scope->kind == SCOPE_SNAPSHOT)
        snprintf(text, size, "%s%.*s:%" PRIu64, prefix, VIEW_ARGS(scope->name),
                 scope->generation);
    else
        join_text(text, view_of(prefix), scope->name);
    return text;
}

/* ---- Conflicts ----------------------------------------------------------------------- */

/* Whether `path` is `tree` itself or is under it. */
static bool is_under(struct view path, struct view tree)
{
    if (tree.size == 1) /* the root */
        return true;
    bool longer = path.size > tree.size;
    if (RULE(TREE_BY_SEGMENT) && longer && path.data[tree.size] != '/')
        return false; /* /ab is not under /a */
    return view_starts_with(path, tree);
}

static bool same_name(const struct scope *a, const struct scope *b)
{
    return view_equal(a->name, b->name);
}

static bool same_inode(const struct scope *a, const struct scope *b)
{
    return a->inode == b->inode;
}

static bool is_above(const struct scope *tree, const struct scope *path)
{
    return is_under(path->name, tree->name);
}

static bool is_below(const struct scope *path, const struct scope *tree)
{
    return RULE(TREE_ABOVE_TOO) && is_under(path->name, tree->name);
}

static bool trees_nest(const struct scope *a, const struct scope *b)
{
    return is_above(a, b) || is_below(a, b);
}

static bool starts_inside(const struct scope *a, const struct scope *b)
{
    return b->start <= a->start && a->start < b->end;
}

static bool ranges_overlap(const struct scope *a, const struct scope *b)
{
    return a->inode == b->inode &&
           (starts_inside(b, a) || (RULE(RANGES_OVERLAP) && starts_inside(a, b)));
}

/* Two scopes conflict if the function for their kinds returns true. If there is no function, they
 * never conflict. */
typedef bool scope_test(const struct scope *a, const struct scope *b);

static scope_test *const conflict_tests[KIND_ROWS][KIND_ROWS] = {
    [SCOPE_NAMED] = { [SCOPE_NAMED] = same_name },
    [SCOPE_PATH] = { [SCOPE_PATH] = same_name, [SCOPE_TREE] = is_below },
    [SCOPE_TREE] = { [SCOPE_PATH] = is_above, [SCOPE_TREE] = trees_nest },
    [SCOPE_INODE] = { [SCOPE_INODE] = same_inode, [SCOPE_RANGE] = same_inode },
    [SCOPE_RANGE] = { [SCOPE_INODE] = same_inode, [SCOPE_RANGE] = ranges_overlap },
    [SCOPE_CHUNK] = { [SCOPE_CHUNK] = same_name },
    [SCOPE_PIN] = { NULL }, /* a pin only shows that the object is being read */
    [SCOPE_SHARD] = { [SCOPE_SHARD] = same_name },
    [SCOPE_SNAPSHOT] = { NULL }, /* like a pin */
};

bool scope_conflicts(const struct scope *a, const struct scope *b)
{
    scope_test *test = conflict_tests[a->kind][b->kind];
    return test && test(a, b);
}

static bool is_inode(const struct scope *scope)
{
    return scope->kind == SCOPE_INODE || scope->kind == SCOPE_RANGE;
}

bool scope_equal(const struct scope *a, const struct scope *b)
{
    if (a->kind != b->kind)
        return false;
    if (is_inode(a))
        return a->inode == b->inode && a->start == b->start && a->end == b->end;
    return view_equal(a->name, b->name) &&
           (a->kind != SCOPE_SNAPSHOT || a->generation == b->generation);
}

bool scope_is_passive(const struct scope *scope)
{
    return scope->kind == SCOPE_PIN || scope->kind == SCOPE_SNAPSHOT;
}

/* ---- Covering ------------------------------------------------------------------------ */

bool scope_covers(const struct scope *a, const struct scope *b)
{
    if (a->kind == SCOPE_TREE && (b->kind == SCOPE_PATH || b->kind == SCOPE_TREE))
        return is_above(a, b);
    if (is_inode(a) && b->kind == SCOPE_RANGE)
        return a->inode == b->inode &&
               (a->kind == SCOPE_INODE || (a->start <= b->start && b->end <= a->end));
    return !scope_is_passive(a) && scope_equal(a, b);
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
    case SCOPE_PIN:
    case SCOPE_SNAPSHOT: return false;
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
