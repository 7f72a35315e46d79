#include "lock/epoch.h"

#include "base/check.h"
#include "base/json.h"
#include "base/layout.h"
#include "base/parse.h"
#include "base/rule.h"
#include "lock/epoch_scan.h"
#include "lock/tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define EPOCH_BYTES_MAX ((size_t)64 * 1024)
#define LIMIT_MS_MAX    (UINT64_C(24) * 3600 * 1000) /* no ttl is longer */

#define PAIR_SIZE 16

/* A damaged object is replaced so often in one change; then something damages it again. */
#define REPLACE_TRIES_MAX 8

/* One of the two objects. */
struct epoch_file {
    struct store *store;
    struct view ns;
    bool is_copy;
    bool rebuild; /* what is lost begins at 0: the change knows how far it has to come */
    bool empty;   /* it was found that no token was ever given */
};

struct epoch_key {
    char text[KEY_BYTES_MAX + 1];
};

static struct view key_of(const struct epoch_file *file, struct epoch_key *space)
{
    int size = snprintf(space->text, sizeof space->text, "%s%.*s.json",
                        file->is_copy ? LAYOUT_EPOCH_COPY_FOLDER : LAYOUT_EPOCH_FOLDER,
                        VIEW_ARGS(file->ns));
    return (struct view){ space->text, (size_t)size };
}

/* ---- The document -------------------------------------------------------------------- */

struct epoch_body {
    uint64_t epoch;
    bool blank;     /* it says only that there is to be an epoch */
    bool unwritten; /* it is not in the store like this */
    struct epoch_limits limits;
    /* Of the copy: which one it is, made anew under another id each time that it was lost, and
     * whether nobody knows yet that the document is not ahead of it. Of the document: of which copy
     * that is known. */
    char pair[PAIR_SIZE + 1];
    bool fresh;
    struct buffer unknown;       /* members that we do not know, each with a comma before it */
    struct buffer unknown_kinds; /* and kinds of tables */
};

static struct epoch_body *body_new(struct hf_error *error)
{
    struct epoch_body *body = malloc(sizeof *body);
    if (body)
        *body = (struct epoch_body){ .unknown = BUFFER_INIT(EPOCH_BYTES_MAX),
                                     .unknown_kinds = BUFFER_INIT(EPOCH_BYTES_MAX) };
    else
        error_no_memory(error);
    return body;
}

static void body_free(void *argument)
{
    struct epoch_body *body = argument;
    if (body) {
        buffer_release(&body->unknown);
        buffer_release(&body->unknown_kinds);
    }
    free(body);
}

static const struct view kind_names[TABLE_KINDS] = {
    [TABLES_OF_NAMES] = { "names", 5 },
    [TABLES_OF_INODES] = { "inodes", 6 },
    [TABLES_OF_PATHS] = { "paths", 5 },
    [TABLES_OF_CHUNKS] = { "chunks", 6 },
};

static void keep_unknown(struct json_reader *reader, struct view name, struct buffer *unknown)
{
    struct view raw;
    if (json_skip(reader, &raw))
        buffer_print(unknown, ",\"%.*s\":%.*s", VIEW_ARGS(name), VIEW_ARGS(raw));
}

/* { "60000": "9f86d081884c7d65:1763200000000000", ... }: until when, by the ttl in ms. */
static void read_limits(struct json_reader *reader, struct limits *limits)
{
    struct view name, text;
    struct ttl_limit limit;
    uint64_t ms;
    for (json_enter_object(reader); json_next_member(reader, &name);) {
        if (!json_take_plain(reader, &text))
            return;
        if (parse_u64(name, LIMIT_MS_MAX, &ms, NULL) != HF_OK || ms == 0 ||
            !stamp_parse(text, &limit.until)) {
            json_fail(reader, "a limit that is none");
            return;
        }
        limit.ttl = SPAN_MS((int64_t)ms);
        limits_add(limits, limit);
    }
}

static void read_longest(struct json_reader *reader, struct epoch_body *body)
{
    struct view name;
    body->limits.known = true;
    for (json_enter_object(reader); json_next_member(reader, &name);) {
        size_t kind = 0;
        while (kind < TABLE_KINDS && !view_equal(name, kind_names[kind]))
            kind++;
        if (kind < TABLE_KINDS)
            read_limits(reader, &body->limits.of[kind]);
        else
            keep_unknown(reader, name, &body->unknown_kinds);
    }
}

static void read_pair(struct json_reader *reader, char pair[PAIR_SIZE + 1])
{
    struct view text;
    if (json_take_plain(reader, &text) && text.size <= PAIR_SIZE)
        snprintf(pair, PAIR_SIZE + 1, "%.*s", VIEW_ARGS(text));
}

static enum hf_status read_members(struct view bytes, struct epoch_body *body,
                                   struct hf_error *error)
{
    struct json_reader reader = json_read(bytes);
    struct view name, raw, format = VIEW("");
    const uint64_t none = EPOCH_MAX + 1;
    body->epoch = none;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("format")))
            json_take_plain(&reader, &format);
        else if (view_equal(name, VIEW("epoch")))
            json_take_u64(&reader, EPOCH_MAX, &body->epoch);
        else if (view_equal(name, VIEW("blank")))
            body->blank = json_skip(&reader, &raw);
        else if (view_equal(name, VIEW("write")))
            json_skip(&reader, &raw);
        else if (view_equal(name, VIEW("longest")))
            read_longest(&reader, body);
        else if (view_equal(name, VIEW("pair")))
            read_pair(&reader, body->pair);
        else if (view_equal(name, VIEW("fresh")))
            json_take_bool(&reader, &body->fresh);
        else
            keep_unknown(&reader, name, &body->unknown);
    }
    bool read = json_end(&reader);
    if (body->unknown.failed || body->unknown_kinds.failed)
        return error_no_memory(error);
    if (view_starts_with(format, VIEW(LAYOUT_EPOCH_FORMATS)) &&
        !view_equal(format, VIEW(LAYOUT_EPOCH_FORMAT)))
        return error_set(error, HF_UNSUPPORTED,
                         "the epoch of the namespace has the format %.*s, and this version "
                         "knows %s: upgrade",
                         VIEW_ARGS(view_first(format, 60)), LAYOUT_EPOCH_FORMAT);
    body->blank = body->blank && body->epoch == none;
    if (!read || !view_equal(format, VIEW(LAYOUT_EPOCH_FORMAT)) ||
        (body->epoch == none && !body->blank))
        return error_set(error, HF_CORRUPT, "the epoch document of the namespace is damaged");
    return HF_OK;
}

static enum hf_status epoch_decode(struct view bytes, struct mono_time arrived,
                                   const void *previous, void **ret_body,
                                   struct hf_error *error)
{
    (void)arrived;
    (void)previous;
    struct epoch_body *body = body_new(error);
    if (!body)
        return error->status;
    enum hf_status status = read_members(bytes, body, error);
    if (status == HF_OK)
        *ret_body = body;
    else
        body_free(body);
    return status;
}

static void write_limits(const struct limits *limits, struct buffer *text)
{
    char until[STAMP_TEXT_MAX];
    for (size_t i = 0; i < limits->count; i++)
        buffer_print(text, "%s\"%" PRId64 "\": \"%s\"", i > 0 ? ", " : "",
                     limits->of[i].ttl.us / 1000, stamp_text(limits->of[i].until, until));
}

static void write_longest(const struct epoch_body *body, struct buffer *text)
{
    buffer_append(text, VIEW(", \"longest\": { "));
    for (size_t kind = 0; kind < TABLE_KINDS; kind++) {
        buffer_print(text, "%s\"%.*s\": { ", kind > 0 ? ", " : "", VIEW_ARGS(kind_names[kind]));
        write_limits(&body->limits.of[kind], text);
        buffer_append(text, VIEW(" }"));
    }
    buffer_append(text, buffer_view(&body->unknown_kinds));
    buffer_append(text, VIEW(" }"));
}

static bool epoch_encode(const void *argument, struct view nonce, struct buffer *text)
{
    const struct epoch_body *body = argument;
    buffer_print(text, "{ \"format\": \"%s\", \"epoch\": %" PRIu64 ", \"write\": \"%.*s\"",
                 LAYOUT_EPOCH_FORMAT, body->epoch, VIEW_ARGS(nonce));
    if (body->pair[0])
        buffer_print(text, ", \"pair\": \"%s\"", body->pair);
    if (body->fresh)
        buffer_append(text, VIEW(", \"fresh\": true"));
    if (body->limits.known)
        write_longest(body, text);
    return buffer_print(text, "%.*s }\n", VIEW_ARGS(buffer_view(&body->unknown)));
}

/* NOT_FOUND: it is not there, or blank. */
static enum hf_status read_file(const struct epoch_file *file, struct mono_time deadline,
                                struct epoch_body **ret_body, struct hf_error *error)
{
    struct epoch_key space;
    struct buffer bytes = BUFFER_INIT(EPOCH_BYTES_MAX);
    struct get_call get = { .key = key_of(file, &space), .body = &bytes, .deadline = deadline };
    void *body = NULL;
    enum hf_status status = store_get(file->store, &get);
    if (status == HF_OK)
        status =
            epoch_decode(buffer_view(&bytes), env_now(file->store->env), NULL, &body, error);
    else if (status == HF_INVALID && get.info.size > EPOCH_BYTES_MAX)
        status =
            error_set(error, HF_CORRUPT, "the epoch document of the namespace is too large");
    else
        *error = get.error;
    buffer_release(&bytes);
    *ret_body = body;
    if (status != HF_OK || !body || !(*ret_body)->blank)
        return status;
    body_free(body);
    *ret_body = NULL;
    return error_set(error, HF_NOT_FOUND, "the epoch document of the namespace is blank");
}

static bool is_lost(enum hf_status status)
{
    return status == HF_NOT_FOUND || status == HF_CORRUPT;
}

static enum hf_status tell_lost(struct view ns, struct hf_error *error)
{
    return error_set(error, HF_CORRUPT,
                     "the token epoch of namespace '%.*s' is lost: neither " LAYOUT_EPOCH_FOLDER
                     "%.*s.json nor its copy can be read; 'holdfast store repair epoch' "
                     "rebuilds it",
                     VIEW_ARGS(view_first(ns, 40)), VIEW_ARGS(view_first(ns, 40)));
}

/* The copy, if it is known that the document was not ahead of it. */
static enum hf_status read_copy(struct store *store, struct view ns, struct mono_time deadline,
                                struct epoch_body **ret_body, struct hf_error *error)
{
    struct epoch_file copy = { .store = store, .ns = ns, .is_copy = true };
    enum hf_status status = read_file(&copy, deadline, ret_body, error);
    if (status != HF_OK || ((*ret_body)->pair[0] && !(*ret_body)->fresh))
        return status;
    body_free(*ret_body);
    *ret_body = NULL;
    return tell_lost(ns, error);
}

/* The document, or else its copy: *ret_whole tells that it was the document. */
static enum hf_status read_either(struct store *store, struct view ns,
                                  struct mono_time deadline, struct epoch_body **ret_body,
                                  bool *ret_whole, struct hf_error *error)
{
    struct epoch_file document = { .store = store, .ns = ns };
    struct hf_error why = { .status = HF_OK };
    enum hf_status first = read_file(&document, deadline, ret_body, error);
    if (is_lost(first) && !RULE(LOST_EPOCH_IS_NOT_ZERO)) {
        *ret_body = body_new(error);
        first = *ret_body ? HF_OK : HF_UNAVAILABLE;
    }
    *ret_whole = first == HF_OK;
    if (!is_lost(first))
        return first;
    enum hf_status second = read_copy(store, ns, deadline, ret_body, &why);
    if (!is_lost(second)) {
        *error = why;
        return second;
    }
    if (first == HF_NOT_FOUND && second == HF_NOT_FOUND)
        return error_set(error, HF_NOT_FOUND, "the namespace has no epoch");
    return tell_lost(ns, error);
}

enum hf_status epoch_read(struct store *store, struct view ns, struct mono_time deadline,
                          uint64_t *ret_epoch, struct hf_error *error)
{
    struct epoch_body *body = NULL;
    bool whole;
    enum hf_status status = read_either(store, ns, deadline, &body, &whole, error);
    if (status != HF_OK)
        return status;
    *ret_epoch = body->epoch;
    body_free(body);
    return error_clear(error);
}

/* ---- Making it ----------------------------------------------------------------------- */

/* Whether no token was ever given, so that an epoch that nothing tells is 0. If one was, then maybe
 * by somebody who has made ours meanwhile: then there is nothing to make. */
static enum hf_status check_empty(struct epoch_file *file, struct mono_time deadline,
                                  struct hf_error *error)
{
    struct epoch_scan scan = { 0 };
    struct epoch_body *made = NULL;
    if (file->rebuild || file->empty)
        return HF_OK;
    enum hf_status status =
        epoch_scan_tables(file->store, file->ns, /* briefly */ true, deadline, &scan, error);
    file->empty = status == HF_OK && !scan.used;
    if (status != HF_OK || file->empty)
        return status;
    status = read_file(file, deadline, &made, error);
    if (status == HF_OK) {
        body_free(made);
        return error_set(error, HF_CONFLICT, "somebody else has made the epoch document");
    }
    return is_lost(status) ? tell_lost(file->ns, error) : status;
}

/* A body where there was none, or a blank one: as the other object says, or else 0. */
static enum hf_status fill(struct epoch_file *file, struct epoch_body *body,
                           struct mono_time deadline, struct hf_error *error)
{
    struct epoch_file document = { .store = file->store, .ns = file->ns };
    struct epoch_body *other = NULL;
    enum hf_status status = file->is_copy
                                ? read_file(&document, deadline, &other, error)
                                : read_copy(file->store, file->ns, deadline, &other, error);
    if (status == HF_OK) {
        struct epoch_body mine = *body;
        *body = *other;
        *other = mine;
        body_free(other);
        if (file->is_copy)
            body->pair[0] = '\0'; /* another one from now on */
    } else if (is_lost(status)) {
        body->epoch = 0;
        body->limits = (struct epoch_limits){ .known = !file->rebuild };
        status = check_empty(file, deadline, error);
    }
    body->blank = false;
    body->unwritten = true;
    return status;
}

static bool epoch_is_whole(const void *body)
{
    return !((const struct epoch_body *)body)->blank;
}

static enum hf_status epoch_prepare(void *context, void *body, struct mono_time deadline,
                                    struct hf_error *error)
{
    return epoch_is_whole(body) ? HF_OK : fill(context, body, deadline, error);
}

/* Puts a blank one, which no two are alike: what was to be written over something else, and lands
 * late, must not find that again. */
static enum hf_status put_blank(const struct epoch_file *file, struct view key,
                                struct condition condition, struct mono_time deadline,
                                struct etag *ret_etag, struct hf_error *error)
{
    char nonce[NONCE_SIZE + 1], text[128];
    env_random_hex(file->store->env, NONCE_SIZE, nonce);
    snprintf(text, sizeof text, "{ \"format\": \"%s\", \"blank\": \"%s\" }\n",
             LAYOUT_EPOCH_FORMAT, nonce);
    struct put_call put = {
        .key = key, .body = view_of(text), .condition = condition, .deadline = deadline
    };
    enum hf_status status = store_put(file->store, &put);
    if (status == HF_OK)
        *ret_etag = put.etag;
    else
        *error = put.error;
    return status;
}

/* In two writes, as tables are born that may be purged. */
static enum hf_status epoch_birth(void *context, struct view key, struct mono_time deadline,
                                  void **ret_body, struct etag *ret_etag,
                                  struct hf_error *error)
{
    struct epoch_file *file = context;
    struct epoch_body *body = body_new(error);
    if (!body)
        return error->status;
    enum hf_status status = put_blank(file, key, if_absent(), deadline, ret_etag, error);
    if (status == HF_OK)
        status = fill(file, body, deadline, error);
    if (status == HF_OK)
        *ret_body = body;
    else
        body_free(body);
    return status;
}

static const struct doc_type epoch_type = {
    .bytes_max = EPOCH_BYTES_MAX,
    .decode = epoch_decode,
    .is_whole = epoch_is_whole,
    .prepare = epoch_prepare,
    .birth = epoch_birth,
    .encode = epoch_encode,
    .free = body_free,
};

/* Keeps the damaged bytes aside and puts a blank one in their place. CONFLICT: they are not there
 * any more. */
static enum hf_status replace_damaged(const struct epoch_file *file, struct mono_time deadline,
                                      struct hf_error *error)
{
    struct epoch_key space;
    struct table_space kept_in = { .store = file->store };
    struct buffer bytes = BUFFER_INIT(BODY_BYTES_MAX);
    struct get_call get = { .key = key_of(file, &space), .body = &bytes, .deadline = deadline };
    struct etag etag;
    void *body = NULL;
    enum hf_status status = store_get(file->store, &get);
    if (status != HF_OK) {
        *error = get.error;
    } else if (bytes.size <= EPOCH_BYTES_MAX) {
        status =
            epoch_decode(buffer_view(&bytes), env_now(file->store->env), NULL, &body, error);
        if (status == HF_OK) {
            body_free(body);
            status =
                error_set(error, HF_CONFLICT, "the epoch document is not damaged any more");
        } else if (status == HF_CORRUPT) {
            status = HF_OK;
        }
    }
    if (status == HF_OK)
        status = table_keep_aside(&kept_in, get.key, buffer_view(&bytes), deadline, error);
    if (status == HF_OK)
        status = put_blank(file, get.key, if_match(&get.info.etag), deadline, &etag, error);
    buffer_release(&bytes);
    return status;
}

/* ---- Changing it --------------------------------------------------------------------- */

struct epoch_op {
    struct doc_op op;
    uint64_t by;
    uint64_t at_least;
    char pair[PAIR_SIZE + 1]; /* of the copy, when the document is changed */
    bool pair_anew;           /* the document may be of another copy */
    bool confirm; /* the copy is known to say all of `limits`: it is fresh no more */
    bool forget_limits;
    const struct table_space *space; /* NULL: limits are not asked for */
    enum table_kind kind;
    struct span record; /* a ttl, or 0 */

    uint64_t before, epoch; /* told */
    bool fresh;             /* of the copy */
    bool stale;             /* it is about another copy: nothing was changed */
    bool paired;            /* the document was of another copy */
    struct epoch_limits limits;
    struct span longest;
    struct ttl_limit limit; /* that was recorded */
};

/* How long leases may have been that were granted with no limit recorded. */
static void record_unknown(struct epoch_limits *limits, const struct table_space *space,
                           const struct evidence *evidence)
{
    if (limits->known)
        return;
    *limits = (struct epoch_limits){ .known = true };
    for (size_t kind = 0; kind < TABLE_KINDS; kind++)
        limits_record(&limits->of[kind], &space->settings, space->settings.ttl_max,
                      &space->policy, evidence);
}

static void apply_limits(struct epoch_op *change, struct epoch_body *body,
                         const struct evidence *evidence)
{
    const struct table_space *space = change->space;
    struct epoch_limits limits = body->limits;
    struct limits *of_kind = &limits.of[change->kind];
    if (change->record.us > 0) {
        record_unknown(&limits, space, evidence);
        limits_record(of_kind, &space->settings, change->record, &space->policy, evidence);
        check(limits_find(of_kind, &space->settings, change->record, &space->policy, evidence,
                          &change->limit));
        change->op.changed = true;
    } else {
        limits_drop_over(of_kind, &space->settings, evidence);
    }
    change->longest = limits.known ? limits_longest(of_kind) : SPAN_US(0);
    if (change->longest.us == 0)
        change->longest = space->settings.ttl_max;
    if (change->op.changed)
        body->limits = limits;
}

/* A copy that was made anew gets an id. False: the change is about another one. */
static bool apply_pair(struct epoch_op *change, struct epoch_body *body,
                       const struct evidence *evidence, bool is_copy)
{
    bool same = view_equal(view_of(body->pair), view_of(change->pair));
    if (is_copy && change->confirm) {
        change->op.changed = same && body->fresh;
        body->fresh = body->fresh && !same;
        return same;
    }
    if (is_copy && !body->pair[0]) {
        snprintf(body->pair, sizeof body->pair, "%.*s",
                 VIEW_ARGS(view_first(evidence->nonce, PAIR_SIZE)));
        body->fresh = true;
        change->op.changed = true;
    }
    if (is_copy) {
        memcpy(change->pair, body->pair, sizeof change->pair);
        change->fresh = body->fresh;
        return true;
    }
    change->paired = !same;
    if (!same && body->pair[0] && !change->pair_anew)
        return false;
    memcpy(body->pair, change->pair, sizeof body->pair);
    body->fresh = false;
    change->op.changed = change->op.changed || !same;
    return true;
}

/* Takes along what the document says. */
static void merge_limits(struct epoch_limits *limits, const struct epoch_limits *more)
{
    limits->known = limits->known && more->known;
    for (size_t kind = 0; kind < TABLE_KINDS; kind++)
        for (size_t i = 0; i < more->of[kind].count; i++)
            limits_add(&limits->of[kind], more->of[kind].of[i]);
}

static enum hf_status apply_change(struct epoch_op *change, struct epoch_body *body,
                                   const struct evidence *evidence, bool is_copy)
{
    struct doc_op *op = &change->op;
    uint64_t epoch = body->epoch;
    if (change->by > EPOCH_MAX - epoch || change->at_least > EPOCH_MAX)
        return error_set(&op->error, HF_UNAVAILABLE, "the namespace has used up its epochs");
    op->changed = body->unwritten;
    change->stale = !apply_pair(change, body, evidence, is_copy);
    change->before = change->epoch = epoch;
    if (change->stale)
        return HF_OK;
    epoch += change->by;
    if (epoch < change->at_least)
        epoch = change->at_least;
    op->changed = op->changed || epoch != body->epoch;
    body->epoch = change->epoch = epoch;
    if (change->confirm && op->changed)
        merge_limits(&body->limits, &change->limits);
    if (change->forget_limits) {
        op->changed = op->changed || body->limits.known;
        body->limits.known = false;
    }
    if (change->space)
        apply_limits(change, body, evidence);
    if (!change->confirm)
        change->limits = body->limits;
    return HF_OK;
}

static enum hf_status apply_to_copy(struct doc_op *op, void *body,
                                    const struct evidence *evidence)
{
    return apply_change((struct epoch_op *)(void *)op, body, evidence, /* is_copy */ true);
}

static enum hf_status apply_to_document(struct doc_op *op, void *body,
                                        const struct evidence *evidence)
{
    return apply_change((struct epoch_op *)(void *)op, body, evidence, /* is_copy */ false);
}

static enum hf_status change_file(struct doc_clock *clock, struct epoch_file *file,
                                  struct epoch_op *change, struct mono_time deadline,
                                  struct hf_error *error)
{
    struct epoch_key space;
    struct doc *doc;
    enum hf_status status =
        doc_new(file->store, clock, key_of(file, &space), &epoch_type, file, &doc, error);
    if (status != HF_OK)
        return status;
    change->op = (struct doc_op){ .apply = file->is_copy ? apply_to_copy : apply_to_document,
                                  .deadline = deadline };
    status = doc_update(doc, &change->op);
    bool replaced = true;
    for (int i = 0; change->op.answer == DOC_DAMAGED && replaced && i < REPLACE_TRIES_MAX;
         i++) {
        status = replace_damaged(file, deadline, error);
        replaced = status == HF_OK || status == HF_CONFLICT || status == HF_NOT_FOUND;
        if (replaced)
            status = doc_update(doc, &change->op);
    }
    if (status != HF_OK && replaced)
        *error = change->op.error;
    doc_free(doc);
    return status;
}

/* The copy, then the document; and a copy that was made anew is confirmed then: whatever the
 * document said when it was told of this copy is in it, and whoever was at the former copy finds
 * that the document is of another. *ret_again: it is to be done again. */
static enum hf_status change_both(struct doc_clock *clock, struct epoch_file *copy,
                                  struct epoch_file *document, struct epoch_op *change,
                                  struct mono_time deadline, bool *ret_again,
                                  struct hf_error *error)
{
    struct epoch_op first = *change;
    enum hf_status status = change_file(clock, copy, &first, deadline, error);
    struct epoch_op second = first;
    second.by = 0;
    second.at_least = first.epoch;
    second.pair_anew = first.fresh || view_equal(view_of(first.pair), view_of(change->pair));
    document->empty = copy->empty;
    if (status == HF_OK)
        status = change_file(clock, document, &second, deadline, error);
    struct epoch_op third = { .pair = { 0 }, .confirm = true, .at_least = second.epoch };
    memcpy(third.pair, second.pair, sizeof third.pair);
    third.limits = second.limits;
    bool confirm = !second.stale && (first.fresh || second.paired);
    if (status == HF_OK && confirm)
        status = change_file(clock, copy, &third, deadline, error);
    *ret_again = second.stale || (confirm && third.stale);
    if (confirm && change->by > 0 && second.before >= first.epoch) {
        change->at_least = second.before + change->by; /* the copy was behind */
        *ret_again = true;
    }
    memcpy(change->pair, first.pair, sizeof change->pair);
    change->epoch = second.epoch;
    change->limits = second.limits;
    change->limit = second.limit;
    change->longest = first.longest.us > second.longest.us ? first.longest : second.longest;
    return status;
}

/* The document before the copy, see RULE(EPOCH_COPY_FIRST). */
static enum hf_status change_document_early(struct doc_clock *clock,
                                            struct epoch_file *document,
                                            struct epoch_op *change, struct mono_time deadline,
                                            struct hf_error *error)
{
    struct epoch_op early = { .by = change->by, .pair_anew = true };
    enum hf_status status = change_file(clock, document, &early, deadline, error);
    change->by = 0;
    change->at_least = early.epoch;
    return status;
}

static enum hf_status change_epoch(struct store *store, struct doc_clock *clock, struct view ns,
                                   struct epoch_op *change, bool rebuild,
                                   struct mono_time deadline, struct hf_error *error)
{
    struct epoch_file copy = { .store = store, .ns = ns, .is_copy = true, .rebuild = rebuild };
    struct epoch_file document = { .store = store, .ns = ns, .rebuild = rebuild };
    enum hf_status status = HF_OK;
    bool again = true;
    if (!RULE(EPOCH_COPY_FIRST))
        status = change_document_early(clock, &document, change, deadline, error);
    for (int i = 0; status == HF_OK && again && i < REPLACE_TRIES_MAX; i++)
        status = change_both(clock, &copy, &document, change, deadline, &again, error);
    if (status == HF_OK && again)
        status = error_set(error, HF_UNAVAILABLE,
                           "the epoch of the namespace is lost again and again");
    return status;
}

/* The same, where only the epoch is asked for. */
static enum hf_status raise_epoch(struct store *store, struct doc_clock *clock, struct view ns,
                                  struct epoch_op change, bool rebuild,
                                  struct mono_time deadline, uint64_t *ret_epoch,
                                  struct hf_error *error)
{
    enum hf_status status = change_epoch(store, clock, ns, &change, rebuild, deadline, error);
    if (status == HF_OK)
        *ret_epoch = change.epoch;
    return status;
}

enum hf_status epoch_have(struct store *store, struct doc_clock *clock, struct view ns,
                          struct mono_time deadline, uint64_t *ret_epoch,
                          struct epoch_limits *ret_limits, struct hf_error *error)
{
    struct epoch_body *body = NULL;
    struct epoch_op change = { .by = 0 };
    bool whole;
    enum hf_status status = read_either(store, ns, deadline, &body, &whole, error);
    if (status == HF_OK) {
        change.epoch = body->epoch;
        change.limits = body->limits;
        body_free(body);
    }
    /* What the copy alone says does not count before the document says so too. */
    if (status == HF_OK ? !whole : is_lost(status))
        status = change_epoch(store, clock, ns, &change, /* rebuild */ false, deadline, error);
    if (status == HF_OK)
        *ret_epoch = change.epoch;
    if (status == HF_OK && ret_limits)
        *ret_limits = change.limits;
    return status;
}

enum hf_status epoch_raise_by(struct store *store, struct doc_clock *clock, struct view ns,
                              uint64_t by, struct mono_time deadline, uint64_t *ret_epoch,
                              struct hf_error *error)
{
    return raise_epoch(store, clock, ns, (struct epoch_op){ .by = by }, /* rebuild */ false,
                       deadline, ret_epoch, error);
}

enum hf_status epoch_raise(struct store *store, struct doc_clock *clock, struct view ns,
                           struct mono_time deadline, uint64_t *ret_epoch,
                           struct hf_error *error)
{
    return epoch_raise_by(store, clock, ns, 1, deadline, ret_epoch, error);
}

enum hf_status epoch_rebuild(struct store *store, struct doc_clock *clock, struct view ns,
                             uint64_t at_least, struct mono_time deadline, uint64_t *ret_epoch,
                             struct hf_error *error)
{
    return raise_epoch(store, clock, ns, (struct epoch_op){ .at_least = at_least },
                       /* rebuild */ true, deadline, ret_epoch, error);
}

enum hf_status epoch_raise_restored(struct store *store, struct doc_clock *clock,
                                    struct view ns, uint64_t by, struct mono_time deadline,
                                    uint64_t *ret_epoch, struct hf_error *error)
{
    return raise_epoch(store, clock, ns, (struct epoch_op){ .by = by, .forget_limits = true },
                       /* rebuild */ false, deadline, ret_epoch, error);
}

enum hf_status epoch_raise_after_damage(const struct table_space *space, enum table_kind kind,
                                        struct mono_time deadline, uint64_t *ret_epoch,
                                        struct span *ret_longest, struct hf_error *error)
{
    struct epoch_op change = { .by = 1, .space = space, .kind = kind };
    enum hf_status status = change_epoch(space->store, space->clock, view_of(space->ns),
                                         &change, /* rebuild */ false, deadline, error);
    if (status == HF_OK) {
        *ret_epoch = change.epoch;
        *ret_longest = change.longest;
    }
    return status;
}

enum hf_status epoch_record_limit(const struct table_space *space, enum table_kind kind,
                                  struct span ttl, struct mono_time deadline,
                                  struct ttl_limit *ret_limit, struct hf_error *error)
{
    struct epoch_op change = { .space = space, .kind = kind, .record = ttl };
    struct evidence evidence = { .nonce = VIEW("") };
    struct epoch_limits limits;
    uint64_t epoch;
    enum hf_status status = epoch_have(space->store, space->clock, view_of(space->ns), deadline,
                                       &epoch, &limits, error);
    clock_evidence(space->clock, &evidence);
    if (status != HF_OK || (limits.known && limits_find(&limits.of[kind], &space->settings, ttl,
                                                        &space->policy, &evidence, ret_limit)))
        return status;
    status = change_epoch(space->store, space->clock, view_of(space->ns), &change,
                          /* rebuild */ false, deadline, error);
    if (status == HF_OK)
        *ret_limit = change.limit;
    return status;
}
