/* SPDX-License-Identifier: Apache-2.0 */
/* prefixes.c: the document that registers prefixes to partitions. It keeps two partitions from
 * adopting the same object, whose rows would then be in the bucket twice, and which one of them
 * could delete while the other needs it. */
#include "compact/catalog/prefixes.h"

#include "base/checksum.h"
#include "base/members.h"
#include "base/rule.h"
#include "base/utf8.h"
#include "lock/tables.h"

#include <stdlib.h>

/* ---- Paths --------------------------------------------------------------------------- */

bool prefix_excludes(struct view key)
{
    return layout_in_own_folder(key) || layout_is_own(key) || table_key_is_ours(key);
}

static bool is_prefix(struct view path)
{
    return path.size > 0 && path.data[path.size - 1] == '/';
}

bool prefix_covers(struct view outer, struct view inner)
{
    return is_prefix(outer) ? view_starts_with(inner, outer) : view_equal(inner, outer);
}

enum hf_status prefix_check(struct view path, struct hf_error *error)
{
    if (path.size == 0 || path.size > KEY_BYTES_MAX || !utf8_is_text(path) ||
        path.data[0] == '/')
        return error_set(error, HF_INVALID,
                         "a prefix or key must be text of 1 to %d bytes that does not start "
                         "with a slash",
                         KEY_BYTES_MAX);
    /* A namespace keeps its lock tables in a folder with its name. */
    bool ours = prefix_excludes(path) || view_equal(path, VIEW(LAYOUT_NAMESPACE_DEFAULT "/"));
    return ours ? error_set(error, HF_INVALID, "%.*s: Holdfast's own objects cannot be adopted",
                            VIEW_ARGS(view_first(path, 120)))
                : HF_OK;
}

/* ---- The list ------------------------------------------------------------------------ */

struct prefix_list {
    struct arena arena; /* for the strings */
    struct buffer space;
    struct buffer unknown; /* members of the document that only later versions know */
    struct prefix *prefixes;
    size_t count, room;
};

struct prefix_list *prefix_list_new(void)
{
    struct prefix_list *list = calloc(1, sizeof *list);
    if (!list)
        return NULL;
    list->arena = ARENA_INIT;
    list->space = BUFFER_INIT(PREFIXES_BYTES_MAX);
    list->unknown = BUFFER_INIT(PREFIXES_BYTES_MAX);
    return list;
}

void prefix_list_free(struct prefix_list *list)
{
    if (!list)
        return;
    arena_release(&list->arena);
    buffer_release(&list->space);
    buffer_release(&list->unknown);
    free(list->prefixes);
    free(list);
}

size_t prefix_list_count(const struct prefix_list *list)
{
    return list->count;
}

const struct prefix *prefix_list_at(const struct prefix_list *list, size_t index)
{
    return &list->prefixes[index];
}

static bool make_room(struct prefix_list *list, size_t more)
{
    size_t room = list->room ? list->room : 16;
    while (room < list->count + more)
        room *= 2;
    struct prefix *grown =
        room > list->room ? realloc(list->prefixes, room * sizeof *grown) : list->prefixes;
    if (!grown)
        return false;
    list->prefixes = grown;
    list->room = room;
    return true;
}

/* ---- Encoding ------------------------------------------------------------------------ */

static const struct member prefix_members[] = {
    MEMBER(prefix, "path", MEMBER_TEXT, path, KEY_BYTES_MAX, MEMBER_NEEDED),
    MEMBER(prefix, "partition", MEMBER_TEXT, partition, PARTITION_BYTES_MAX, MEMBER_NEEDED),
    MEMBER(prefix, "own", MEMBER_BOOL, own, 0, MEMBER_OPTIONAL),
    MEMBER(prefix, "releasing", MEMBER_BOOL, releasing, 0, MEMBER_OPTIONAL),
    MEMBER(prefix, "since", MEMBER_STAMP, since, 0, MEMBER_OPTIONAL),
    MEMBER(prefix, "restamps", MEMBER_U32, restamps, UINT32_MAX, MEMBER_OPTIONAL),
};
static const struct member_table prefix_table =
    MEMBER_TABLE(prefix_members, "a prefix without its path or partition");

bool prefix_list_encode(const struct prefix_list *list, struct view nonce, struct buffer *text)
{
    buffer_append(text, VIEW("{\"format\":\"" LAYOUT_ADOPTED_FORMAT "\",\"write\":"));
    checksum_append_write(text, nonce);
    buffer_append(text, VIEW(",\"prefixes\":["));
    for (size_t i = 0; i < list->count; i++) {
        buffer_append(text, i > 0 ? VIEW(",\n") : VIEW("\n"));
        members_write(&prefix_table, &list->prefixes[i], '{', text);
        buffer_append(text, list->prefixes[i].unknown);
        buffer_append_byte(text, '}');
    }
    buffer_append(text, VIEW("]"));
    buffer_append(text, buffer_view(&list->unknown));
    buffer_append(text, VIEW("}\n"));
    return checksum_finish(text);
}

/* The paths are checked as when they are registered: if two overlapped, an object would have two
 * partitions. */
static bool read_prefix(struct prefix_list *list, struct json_reader *json)
{
    struct prefix prefix = { .path = VIEW(""), .partition = VIEW("") };
    struct buffer unknown = BUFFER_INIT(PREFIXES_BYTES_MAX);
    struct member_reader members = { json, &list->space, &unknown, NULL };
    struct hf_error ignored;
    bool good = members_read(&members, &prefix_table, &prefix);
    if (good && (prefix_check(prefix.path, &ignored) != HF_OK ||
                 !layout_partition_valid(prefix.partition) || list->count == PREFIXES_MAX))
        good = json_fail(json, "an invalid path or partition, or too many of them");
    for (size_t i = 0; i < list->count && good; i++) {
        struct view other = list->prefixes[i].path;
        bool overlaps = prefix_covers(other, prefix.path) || prefix_covers(prefix.path, other);
        if (RULE(PREFIX_HAS_ONE_PARTITION) && overlaps)
            good = json_fail(json, "two paths overlap");
    }
    if (good) {
        prefix.unknown = arena_copy(&list->arena, buffer_view(&unknown));
        good = (prefix.unknown.data && make_room(list, 1)) || json_fail(json, "out of memory");
    }
    if (good)
        list->prefixes[list->count++] = prefix;
    buffer_release(&unknown);
    return good;
}

static bool read_prefix_list(struct prefix_list *list, struct json_reader *json,
                             bool *ret_later)
{
    struct view name, raw, format = VIEW("");
    bool listed = false;
    *ret_later = false;
    for (json_enter_object(json); json_next_member(json, &name);) {
        if (view_equal(name, VIEW("format"))) {
            json_take_plain(json, &format);
            *ret_later = !view_equal(format, VIEW(LAYOUT_ADOPTED_FORMAT)) &&
                         view_starts_with(format, VIEW("holdfast.adopted/"));
        } else if (view_equal(name, VIEW("prefixes"))) {
            for (json_enter_array(json); json_next_element(json);)
                if (!read_prefix(list, json))
                    return false;
            listed = true;
        } else if (json_skip(json, &raw) && !view_equal(name, VIEW("write"))) {
            buffer_print(&list->unknown, ",\"%.*s\":%.*s", VIEW_ARGS(name), VIEW_ARGS(raw));
        }
    }
    if (!json_end(json))
        return false;
    if (!listed || !view_equal(format, VIEW(LAYOUT_ADOPTED_FORMAT)))
        return json_fail(json, "its format is unknown, or it has no list");
    return !list->unknown.failed || json_fail(json, "out of memory");
}

enum hf_status prefix_list_decode(struct view text, struct prefix_list **ret_list,
                                  struct hf_error *error)
{
    if (checksum_check(text) == CHECKSUM_WRONG)
        return error_set(error, HF_CORRUPT, "%s: %s", LAYOUT_ADOPTED_KEY, CHECKSUM_MISTAKE);
    struct prefix_list *list = prefix_list_new();
    struct view copy = list ? arena_copy(&list->arena, text) : (struct view){ NULL, 0 };
    if (!copy.data || !buffer_reserve(&list->space, text.size + 1)) {
        prefix_list_free(list);
        return error_no_memory(error);
    }
    struct json_reader json = json_read(copy);
    bool later;
    if (read_prefix_list(list, &json, &later)) {
        *ret_list = list;
        return HF_OK;
    }
    prefix_list_free(list);
    return error_set(error, later ? HF_UNSUPPORTED : HF_CORRUPT, "%s: %s", LAYOUT_ADOPTED_KEY,
                     later      ? "the format version is newer than this program supports"
                     : json.why ? json.why
                                : "not a list of prefixes");
}

/* ---- Claims -------------------------------------------------------------------------- */

static enum hf_status overlap(const struct prefix *claim, const struct prefix *there,
                              struct hf_error *error)
{
    return error_set(error, HF_CONFLICT,
                     "%.*s overlaps %.*s, which is registered to partition %.*s",
                     VIEW_ARGS(view_first(claim->path, 80)),
                     VIEW_ARGS(view_first(there->path, 80)), VIEW_ARGS(there->partition));
}

static enum hf_status owns_differently(const struct prefix *there, struct hf_error *error)
{
    return error_set(error, HF_CONFLICT,
                     "%.*s is registered %s --own; to change that, release it first with "
                     "'holdfast compact release'",
                     VIEW_ARGS(view_first(there->path, 100)), there->own ? "with" : "without");
}

/* How a claim relates to what is registered. `*ret_there`: the path that it is inside, or NULL. */
static enum hf_status check_claim(const struct prefix_list *list, struct prefix *claim,
                                  struct prefix **ret_there, struct hf_error *error)
{
    enum hf_status status = prefix_check(claim->path, error);
    *ret_there = NULL;
    for (size_t i = 0; i < list->count && status == HF_OK; i++) {
        struct prefix *there = &list->prefixes[i];
        bool inside = prefix_covers(there->path, claim->path);
        if (!inside && !prefix_covers(claim->path, there->path))
            continue;
        if (RULE(PREFIX_HAS_ONE_PARTITION) && !view_equal(there->partition, claim->partition))
            return overlap(claim, there, error);
        if (inside ? claim->own && !there->own : claim->own != there->own)
            return owns_differently(there, error);
        if (inside) {
            claim->own = there->own;
            *ret_there = there;
        }
    }
    return status;
}

/* The path is needed after all. */
static bool stop_releasing(struct prefix *prefix)
{
    bool was = prefix->releasing;
    prefix->releasing = false;
    prefix->since = (struct stamp){ 0, 0 };
    prefix->restamps = 0;
    return was;
}

static enum hf_status add_claim(struct prefix_list *list, const struct prefix *claim,
                                struct hf_error *error)
{
    struct prefix added = { .path = arena_copy(&list->arena, claim->path),
                            .partition = arena_copy(&list->arena, claim->partition),
                            .own = claim->own,
                            .unknown = VIEW("") };
    if (!added.path.data || !added.partition.data || !make_room(list, 1))
        return error_no_memory(error);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (!prefix_covers(added.path, list->prefixes[i].path) ||
            !view_equal(added.partition, list->prefixes[i].partition))
            list->prefixes[kept++] = list->prefixes[i];
    list->count = kept;
    if (list->count == PREFIXES_MAX)
        return error_set(error, HF_UNAVAILABLE,
                         "%d paths are registered already: adopt whole prefixes instead of "
                         "single objects",
                         PREFIXES_MAX);
    list->prefixes[list->count++] = added;
    return HF_OK;
}

enum hf_status prefix_list_claim(struct prefix_list *list, struct prefix *claims, size_t count,
                                 bool *ret_changed, struct hf_error *error)
{
    size_t before = list->count;
    struct prefix *saved = malloc((before + 1) * sizeof *saved);
    enum hf_status status = saved ? HF_OK : error_no_memory(error);
    if (saved && before > 0)
        memcpy(saved, list->prefixes, before * sizeof *saved);
    *ret_changed = false;
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        struct prefix *there;
        status = check_claim(list, &claims[i], &there, error);
        if (status != HF_OK)
            continue;
        if (there) {
            *ret_changed |= stop_releasing(there);
            continue;
        }
        status = add_claim(list, &claims[i], error);
        *ret_changed = true;
    }
    if (status != HF_OK && saved && before > 0)
        memcpy(list->prefixes, saved, before * sizeof *saved);
    if (status != HF_OK && saved)
        list->count = before;
    free(saved);
    return status;
}

/* ---- Releasing ----------------------------------------------------------------------- */

static bool has_waited(const struct prefix *prefix, const struct prefix_release *release,
                       const struct evidence *evidence)
{
    struct span wait = SPAN_MS(2 * release->late_bound_ms);
    bool is_young =
        RULE(RELEASE_WAITS) && !stamp_passed(prefix->since, /* seen */ evidence->now, wait,
                                             SPAN_MS(release->skew_tolerance_ms), evidence);
    return !is_young;
}

int64_t prefix_wait_ms(const struct prefix *prefix, int64_t late_bound_ms,
                       const struct evidence *evidence)
{
    int64_t age_ms =
        prefix->releasing ? stamp_age(prefix->since, SPAN_US(0), evidence).us / 1000 : 0;
    return age_ms < 2 * late_bound_ms ? 2 * late_bound_ms - age_ms : 0;
}

/* Marks the path or, if its mark is of a clock that this process cannot read, marks it again: then
 * the wait begins anew. Returns false if neither is needed. */
static bool mark_releasing(struct prefix *prefix, const struct evidence *evidence)
{
    bool unreadable = evidence->time_known && !stamp_is_readable(prefix->since, evidence) &&
                      prefix->restamps < STAMP_RESTAMPS_MAX;
    if (prefix->releasing && !unreadable)
        return false;
    prefix->restamps += prefix->releasing;
    prefix->releasing = true;
    prefix->since = stamp_now(evidence);
    return true;
}

void prefix_list_release(struct prefix_list *list, struct view partition,
                         struct prefix_release *release, const struct evidence *evidence,
                         bool *ret_changed)
{
    size_t kept = 0;
    *ret_changed = false;
    release->waiting = release->ready = 0;
    release->wait_ms = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct prefix *prefix = &list->prefixes[i];
        bool asked = view_equal(prefix->partition, partition) &&
                     (release->path.size == 0 || view_equal(prefix->path, release->path));
        bool waited = asked && prefix->releasing && has_waited(prefix, release, evidence);
        if (waited && release->unused) {
            *ret_changed = true;
            continue;
        }
        if (asked && !waited) {
            *ret_changed |= mark_releasing(prefix, evidence);
            int64_t left_ms = prefix_wait_ms(prefix, release->late_bound_ms, evidence);
            release->wait_ms = left_ms > release->wait_ms ? left_ms : release->wait_ms;
        }
        release->waiting += asked && !waited;
        release->ready += waited;
        list->prefixes[kept++] = *prefix;
    }
    list->count = kept;
}

/* ---- The document -------------------------------------------------------------------- */

static enum hf_status prefixes_decode(struct view bytes, struct mono_time arrived,
                                      const void *previous, void **ret_body,
                                      struct hf_error *error)
{
    (void)arrived;
    (void)previous;
    struct prefix_list *list = NULL;
    enum hf_status status = prefix_list_decode(bytes, &list, error);
    if (status == HF_OK)
        *ret_body = list;
    return status;
}

static void *prefixes_birth(void *context)
{
    (void)context;
    return prefix_list_new();
}

static bool prefixes_encode(const void *body, struct view nonce, struct buffer *text)
{
    return prefix_list_encode(body, nonce, text);
}

static void prefixes_free(void *body)
{
    prefix_list_free(body);
}

static const struct doc_type prefixes_type = {
    .bytes_max = PREFIXES_BYTES_MAX,
    .decode = prefixes_decode,
    .birth = prefixes_birth,
    .encode = prefixes_encode,
    .free = prefixes_free,
};

struct claim_op {
    struct doc_op op;
    struct prefix *claims;
    size_t count;
};

static enum hf_status apply_prefix_claim(struct doc_op *op, void *body,
                                         const struct evidence *evidence)
{
    struct claim_op *claim = (struct claim_op *)(void *)op;
    (void)evidence;
    return prefix_list_claim(body, claim->claims, claim->count, &op->changed, &op->error);
}

static enum hf_status open_prefixes(struct catalog_tree *tree, struct doc **ret_doc,
                                    struct hf_error *error)
{
    return doc_new(tree->store, client_clock(tree->client), VIEW(LAYOUT_ADOPTED_KEY),
                   &prefixes_type, /* context */ NULL, ret_doc, error);
}

static enum hf_status change_prefixes(struct catalog_tree *tree, struct doc_op *op,
                                      struct hf_error *error)
{
    struct doc *doc;
    enum hf_status status = open_prefixes(tree, &doc, error);
    if (status != HF_OK)
        return status;
    op->deadline = mono_add(env_now(tree->env), CATALOG_TREE_PATIENCE);
    status = doc_update(doc, op);
    *error = op->error;
    doc_free(doc);
    return status;
}

enum hf_status prefixes_claim(struct catalog_tree *tree, struct prefix *claims, size_t count,
                              struct hf_error *error)
{
    struct claim_op claim = { .op = { .apply = apply_prefix_claim },
                              .claims = claims,
                              .count = count };
    for (size_t i = 0; i < count; i++)
        claims[i].partition = view_of(tree->partition);
    return change_prefixes(tree, &claim.op, error);
}

struct release_op {
    struct doc_op op;
    struct view partition;
    struct prefix_release *release;
};

static enum hf_status apply_prefix_release(struct doc_op *op, void *body,
                                           const struct evidence *evidence)
{
    struct release_op *release = (struct release_op *)(void *)op;
    prefix_list_release(body, release->partition, release->release, evidence, &op->changed);
    return HF_OK;
}

enum hf_status prefixes_release(struct catalog_tree *tree, struct prefix_release *release,
                                struct hf_error *error)
{
    struct release_op op = { .op = { .apply = apply_prefix_release },
                             .partition = view_of(tree->partition),
                             .release = release };
    return change_prefixes(tree, &op.op, error);
}

struct prefix_look {
    struct view partition;
    prefixes_look *look;
    void *argument;
};

static void look_at_prefixes(void *argument, const void *body, const struct evidence *evidence)
{
    const struct prefix_look *look = argument;
    const struct prefix_list *list = body;
    for (size_t i = 0; i < list->count; i++)
        if (view_equal(list->prefixes[i].partition, look->partition))
            look->look(look->argument, &list->prefixes[i], evidence);
}

enum hf_status prefixes_show(struct catalog_tree *tree, prefixes_look *look, void *argument,
                             struct hf_error *error)
{
    struct prefix_look each = { view_of(tree->partition), look, argument };
    struct doc *doc;
    enum hf_status status = open_prefixes(tree, &doc, error);
    if (status != HF_OK)
        return status;
    status = doc_look(doc, mono_add(env_now(tree->env), CATALOG_TREE_PATIENCE),
                      look_at_prefixes, &each, error);
    doc_free(doc);
    return status == HF_NOT_FOUND ? error_clear(error) : status;
}
