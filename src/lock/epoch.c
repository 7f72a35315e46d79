/* SPDX-License-Identifier: Apache-2.0 */
/* epoch.c: the epoch of a namespace, kept in a document and a copy. It guards against decreasing
 * tokens: even if one of the objects is lost, or an abandoned write takes effect late, no client
 * reads an epoch lower than one that was used before. */
#include "lock/epoch_inside.h"

#include "base/check.h"
#include "base/checksum.h"
#include "base/json.h"
#include "base/layout.h"
#include "base/mutant.h"
#include "base/parse.h"
#include "base/rule.h"
#include "lock/epoch_scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define EPOCH_BYTES_MAX ((size_t)64 * 1024)
#define LIMIT_MS_MAX    (UINT64_C(24) * 3600 * 1000) /* the longest ttl */

#define READ_TIME_PART 3
#define READ_TIME_MIN  SPAN_MS(500)

/* A client that finds another client's blank waits for it to be filled: for up to a half of the
 * time that is left, and at least for a quarter of that, but not longer than so many requests take.
 * So a dead creator is not waited for long on a fast store. It looks again after up to
 * CREATION_PAUSE times as long as its last read took, and then ever less often. A read that took
 * very long, because this machine was suspended, says nothing about the store, and everybody who
 * uses the table in this process waits as well: so both the wait and a pause are limited. */
#define CREATION_TIME_PART 4
#define CREATION_REQUESTS  512
#define CREATION_WAIT_MIN  SPAN_MS(100)
#define CREATION_WAIT_MAX  SPAN_S(30)
#define CREATION_PAUSE_MAX SPAN_S(5)
#define CREATION_PAUSE     16

/* A client that has time for so many requests in a row searches for tokens. One that has less time
 * does so with a lower probability: if many wait, the store is slow because of them, but it may
 * also be slow at all times. */
#define SEARCH_REQUESTS 128

/* A client has sent so many requests when it finds another client's blank. */
#define BLANK_REQUESTS 4

/* How many times one change starts again. If that is not enough, something keeps damaging the
 * copy. */
#define REPLACE_TRIES_MAX 8

struct epoch_ref epoch_of_tables(const struct table_space *space, struct mono_time deadline)
{
    return (struct epoch_ref){ space->store, space->clock, view_of(space->ns), deadline };
}

struct epoch_key {
    char text[KEY_BYTES_MAX + 1];
};

static struct view epoch_key_of(const struct epoch_file *file, struct epoch_key *space)
{
    int size = snprintf(space->text, sizeof space->text, "%s%.*s.json",
                        file->is_copy ? LAYOUT_EPOCH_COPY_FOLDER : LAYOUT_EPOCH_FOLDER,
                        VIEW_ARGS(file->ref.ns));
    return (struct view){ space->text, (size_t)size };
}

/* ---- The document -------------------------------------------------------------------- */

struct epoch_body *epoch_body_new(struct hf_error *error)
{
    struct epoch_body *body = malloc(sizeof *body);
    if (body)
        *body = (struct epoch_body){ .unknown = BUFFER_INIT(EPOCH_BYTES_MAX),
                                     .unknown_kinds = BUFFER_INIT(EPOCH_BYTES_MAX) };
    else
        error_no_memory(error);
    return body;
}

static void epoch_body_free(void *argument)
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

/* { "60000": "9f86d081884c7d65:1763200000000000", ... }: the end of each limit, keyed by its ttl
 * in ms. */
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
            json_fail(reader, "a limit is invalid");
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
            json_keep_member(reader, name, &body->unknown_kinds);
    }
}

static enum hf_status read_epoch_members(struct view bytes, struct epoch_body *body,
                                         struct hf_error *error)
{
    struct json_reader reader = json_read(bytes);
    struct view name, raw, format = VIEW(""), pair = VIEW("");
    const uint64_t none = EPOCH_MAX + 1;
    if (checksum_check(bytes) == CHECKSUM_WRONG)
        return error_set(error, HF_CORRUPT,
                         "the epoch document of the namespace is damaged: " CHECKSUM_MISTAKE);
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
            json_take_plain(&reader, &pair);
        else if (view_equal(name, VIEW("fresh")))
            json_take_bool(&reader, &body->fresh);
        else
            json_keep_member(&reader, name, &body->unknown);
    }
    bool read = json_end(&reader);
    if (pair.size <= PAIR_SIZE)
        snprintf(body->pair, sizeof body->pair, "%.*s", VIEW_ARGS(pair));
    if (body->unknown.failed || body->unknown_kinds.failed)
        return error_no_memory(error);
    if (view_starts_with(format, VIEW(LAYOUT_EPOCH_FORMATS)) &&
        !view_equal(format, VIEW(LAYOUT_EPOCH_FORMAT)))
        return error_set(error, HF_UNSUPPORTED,
                         "the epoch document of the namespace has the format %.*s, but this "
                         "version knows only %s; upgrade Holdfast",
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
    struct epoch_body *body = epoch_body_new(error);
    if (!body)
        return error->status;
    enum hf_status status = read_epoch_members(bytes, body, error);
    if (status == HF_OK)
        *ret_body = body;
    else
        epoch_body_free(body);
    return status;
}

enum hf_status epoch_check_text(struct view bytes, struct hf_error *error)
{
    void *body = NULL;
    enum hf_status status =
        epoch_decode(bytes, (struct mono_time){ 0 }, /* previous */ NULL, &body, error);
    if (status == HF_OK)
        epoch_body_free(body);
    return status;
}

static void write_longest(const struct epoch_body *body, struct buffer *text)
{
    char until[STAMP_TEXT_MAX];
    buffer_append(text, VIEW(", \"longest\": { "));
    for (size_t kind = 0; kind < TABLE_KINDS; kind++) {
        const struct limits *limits = &body->limits.of[kind];
        buffer_print(text, "%s\"%.*s\": { ", kind > 0 ? ", " : "", VIEW_ARGS(kind_names[kind]));
        for (size_t i = 0; i < limits->count; i++)
            buffer_print(text, "%s\"%" PRId64 "\": \"%s\"", i > 0 ? ", " : "",
                         limits->of[i].ttl.us / 1000, stamp_text(limits->of[i].until, until));
        buffer_append(text, VIEW(" }"));
    }
    buffer_append(text, buffer_view(&body->unknown_kinds));
    buffer_append(text, VIEW(" }"));
}

static bool epoch_encode(const void *argument, struct view nonce, struct buffer *text)
{
    const struct epoch_body *body = argument;
    if (body->blank)
        return buffer_print(text, "{ \"format\": \"%s\", \"blank\": \"%.*s\" }\n",
                            LAYOUT_EPOCH_FORMAT, VIEW_ARGS(nonce));
    buffer_print(text, "{ \"format\": \"%s\", \"epoch\": %" PRIu64 ", \"write\": ",
                 LAYOUT_EPOCH_FORMAT, body->epoch);
    checksum_append_write(text, nonce);
    if (body->pair[0])
        buffer_print(text, ", \"pair\": \"%s\"", body->pair);
    if (body->fresh)
        buffer_append(text, VIEW(", \"fresh\": true"));
    if (body->limits.known)
        write_longest(body, text);
    buffer_print(text, "%.*s }\n", VIEW_ARGS(buffer_view(&body->unknown)));
    return checksum_finish(text);
}

/* One read gets a third of the time that is left. If its reply is lost, there is time for
 * another. */
static struct mono_time epoch_read_deadline(const struct epoch_ref *ref)
{
    struct mono_time now = env_now(ref->store->env);
    struct span part = SPAN_US(mono_since(ref->deadline, now).us / READ_TIME_PART);
    return mono_earlier(ref->deadline, mono_add(now, span_larger(part, READ_TIME_MIN)));
}

/* NOT_FOUND: the object is absent or blank. */
static enum hf_status read_epoch_file(struct epoch_file *file, struct epoch_body **ret_body,
                                      struct hf_error *error)
{
    struct epoch_key space;
    struct buffer bytes = BUFFER_INIT(EPOCH_BYTES_MAX);
    struct store *store = file->ref.store;
    struct get_call get = { .key = epoch_key_of(file, &space),
                            .body = &bytes,
                            .deadline = epoch_read_deadline(&file->ref) };
    void *body = NULL;
    enum hf_status status = store_get(store, &get);
    if (status == HF_OK)
        status = epoch_decode(buffer_view(&bytes), env_now(store->env), NULL, &body, error);
    else if (status == HF_INVALID && get.info.size > EPOCH_BYTES_MAX)
        status =
            error_set(error, HF_CORRUPT, "the epoch document of the namespace is too large");
    else
        *error = get.error;
    buffer_release(&bytes);
    *ret_body = body;
    if (status != HF_OK || !body || !(*ret_body)->blank)
        return status;
    epoch_body_free(body);
    *ret_body = NULL;
    file->begun = true;
    return error_set(error, HF_NOT_FOUND, "the epoch document of the namespace is blank");
}

static bool epoch_is_lost(enum hf_status status)
{
    return status == HF_NOT_FOUND || status == HF_CORRUPT;
}

static enum hf_status report_lost_epoch(struct view ns, struct hf_error *error)
{
    return error_set(error, HF_CORRUPT,
                     "the token epoch of namespace '%.*s' is lost: neither " LAYOUT_EPOCH_FOLDER
                     "%.*s.json nor its copy can be read; 'holdfast store repair epoch' "
                     "rebuilds it",
                     VIEW_ARGS(view_first(ns, 40)), VIEW_ARGS(view_first(ns, 40)));
}

/* Reads the copy. An unconfirmed copy counts as lost too, because the lost document may have been
 * ahead of it. */
static enum hf_status read_epoch_copy(struct epoch_file *copy, struct epoch_body **ret_body,
                                      struct hf_error *error)
{
    enum hf_status status = read_epoch_file(copy, ret_body, error);
    if (status != HF_OK || ((*ret_body)->pair[0] && !(*ret_body)->fresh))
        return status;
    epoch_body_free(*ret_body);
    *ret_body = NULL;
    copy->begun = true;
    return report_lost_epoch(copy->ref.ns, error);
}

/* Reads the document or, if it is lost, its copy. *ret_whole: the document was read. *ret_begun:
 * neither was, and a client is creating them, or has died while it did. */
static enum hf_status read_either(const struct epoch_ref *ref, struct epoch_body **ret_body,
                                  bool *ret_whole, bool *ret_begun, struct hf_error *error)
{
    struct epoch_file document = { .ref = *ref }, copy = { .ref = *ref, .is_copy = true };
    struct hf_error why = { .status = HF_OK };
    enum hf_status first = read_epoch_file(&document, ret_body, error);
    MUTANT(mutant_takes_lost_epoch_for_zero(&first, ret_body));
    *ret_whole = first == HF_OK;
    if (!epoch_is_lost(first))
        return first;
    enum hf_status second = read_epoch_copy(&copy, ret_body, &why);
    *ret_begun = document.begun || copy.begun;
    if (!epoch_is_lost(second)) {
        *error = why;
        return second;
    }
    if (first == HF_NOT_FOUND && second == HF_NOT_FOUND)
        return error_set(error, HF_NOT_FOUND, "the namespace has no epoch");
    return report_lost_epoch(ref->ns, error);
}

enum hf_status epoch_read(struct store *store, struct view ns, struct mono_time deadline,
                          uint64_t *ret_epoch, struct hf_error *error)
{
    struct epoch_ref ref = { .store = store, .ns = ns, .deadline = deadline };
    struct epoch_body *body = NULL;
    bool whole, begun;
    enum hf_status status = read_either(&ref, &body, &whole, &begun, error);
    if (status != HF_OK)
        return status;
    *ret_epoch = body->epoch;
    epoch_body_free(body);
    return error_clear(error);
}

/* ---- Creating it --------------------------------------------------------------------- */

/* Checks that no token was ever issued, so that a lost epoch is 0. The scan runs after our own
 * blank object was written. A client that grants the first token has therefore either filled our
 * blank, and our write over it fails, or the scan finds its token. In the latter case that client
 * may have created both objects, so there is nothing left for us to create; one of them may have
 * been lost again since. */
static enum hf_status check_unused(struct epoch_file *file, struct hf_error *error)
{
    struct epoch_file second = { .ref = file->ref, .is_copy = !file->is_copy };
    struct epoch_scan scan = { 0 };
    struct epoch_body *made = NULL;
    if (file->rebuild || file->empty)
        return HF_OK;
    enum hf_status status = epoch_scan_tables(file->ref.store, file->ref.ns, /* briefly */ true,
                                              file->ref.deadline, &scan, error);
    file->empty = status == HF_OK && !scan.used;
    if (status != HF_OK || file->empty)
        return status;
    status = read_epoch_file(file, &made, error);
    if (epoch_is_lost(status))
        status = file->is_copy ? read_epoch_file(&second, &made, error)
                               : read_epoch_copy(&second, &made, error);
    if (status == HF_OK) {
        epoch_body_free(made);
        return error_set(error, HF_CONFLICT, "another client has created the epoch document");
    }
    return epoch_is_lost(status) ? report_lost_epoch(file->ref.ns, error) : status;
}

/* No call on a document ends like this otherwise. */
#define CREATED_BY_ANOTHER HF_HELD

/* Fills a new or blank body from the other object or, if that is lost too, with 0. */
static enum hf_status fill_blank(struct epoch_file *file, struct epoch_body *body,
                                 struct hf_error *error)
{
    struct epoch_file second = { .ref = file->ref, .is_copy = !file->is_copy };
    struct epoch_body *other = NULL;
    bool of_another = RULE(CREATOR_GOES_FIRST) && !body->ours;
    enum hf_status status = file->is_copy ? read_epoch_file(&second, &other, error)
                                          : read_epoch_copy(&second, &other, error);
    if (status == HF_OK) {
        struct epoch_body mine = *body;
        *body = *other;
        *other = mine;
        epoch_body_free(other);
        if (file->is_copy)
            body->pair[0] = '\0'; /* a recreated copy gets an id of its own (apply_pair) */
    } else if (epoch_is_lost(status)) {
        body->epoch = 0;
        body->limits = (struct epoch_limits){ .known = !file->rebuild };
        if (of_another && !file->waited && !file->empty && !file->rebuild)
            status = error_set(error, CREATED_BY_ANOTHER, "another client creates the epoch");
        else
            status = check_unused(file, error);
    }
    body->blank = false;
    body->unwritten = true;
    return status;
}

static bool epoch_is_whole(const void *body)
{
    return !((const struct epoch_body *)body)->blank;
}

static enum hf_status epoch_prepare(void *context, struct view key, void *body,
                                    struct mono_time deadline, struct hf_error *error)
{
    (void)key;
    (void)
        deadline; /* the search for tokens may take longer than one request: the change's own */
    return epoch_is_whole(body) ? HF_OK : fill_blank(context, body, error);
}

/* A blank object with its own nonce. Its ETag never existed before, so the condition of an
 * abandoned write cannot match it. "No object" and "an empty object" can recur, so neither is ever
 * replaced directly by an object with an epoch. */
static void *epoch_birth(void *context)
{
    (void)context;
    struct epoch_body *body = epoch_body_new(/* error */ NULL);
    if (body)
        body->blank = body->ours = true;
    return body;
}

static enum hf_status epoch_rescue(void *context, struct view key, struct view bytes,
                                   struct mono_time deadline, void **ret_body,
                                   struct hf_error *error)
{
    struct epoch_file *file = context;
    enum hf_status status = table_keep_aside(file->ref.store, key, bytes, deadline, error);
    if (status != HF_OK)
        return status;
    *ret_body = epoch_birth(file);
    return *ret_body ? HF_OK : error_no_memory(error);
}

static const struct doc_type epoch_type = {
    .bytes_max = EPOCH_BYTES_MAX,
    .decode = epoch_decode,
    .is_whole = epoch_is_whole,
    .prepare = epoch_prepare,
    .birth = epoch_birth,
    .rescue = epoch_rescue,
    .encode = epoch_encode,
    .free = epoch_body_free,
};

/* ---- Changing it --------------------------------------------------------------------- */

static void apply_limits(struct epoch_op *change, struct epoch_body *body,
                         const struct evidence *evidence)
{
    const struct table_space *space = change->space;
    struct epoch_limits limits = body->limits;
    struct limits *of_kind = &limits.of[change->kind];
    /* Of many clients that grant their first leases at the same time, one records the limit. */
    bool recorded = RULE(LIMIT_IS_RECORDED_ONCE) && change->record.us > 0 && limits.known &&
                    limits_find(of_kind, &space->settings, change->record, &space->policy,
                                evidence, &change->limit);
    if (change->record.us > 0 && !limits.known) {
        /* Leases granted before limits were recorded may have the longest possible ttl. */
        limits = (struct epoch_limits){ .known = true };
        for (size_t kind = 0; kind < TABLE_KINDS; kind++)
            limits_record(&limits.of[kind], &space->settings, space->settings.ttl_max,
                          &space->policy, evidence);
    }
    if (change->record.us > 0 && !recorded) {
        limits_record(of_kind, &space->settings, change->record, &space->policy, evidence);
        check(limits_find(of_kind, &space->settings, change->record, &space->policy, evidence,
                          &change->limit));
        change->op.changed = true;
    } else if (change->record.us == 0) {
        limits_drop_over(of_kind, &space->settings, evidence);
    }
    change->longest = limits.known ? limits_longest(of_kind) : SPAN_US(0);
    if (change->longest.us == 0)
        change->longest = space->settings.ttl_max;
    if (change->op.changed)
        body->limits = limits;
}

/* Compares the ids that tie the document to its copy. A recreated copy gets a new id here, and is
 * unconfirmed (`fresh`) until the document names it. False: the change was written to another copy
 * and must start again. Suppose that a client has raised the epoch in a copy, the copy is lost,
 * and it is recreated from the document, which still has the old epoch. If the client then raised
 * the document, the document would be ahead of its copy. */
static bool apply_pair(struct epoch_op *change, struct epoch_body *body,
                       const struct evidence *evidence)
{
    bool same = view_equal(view_of(body->pair), view_of(change->pair));
    if (change->to_copy && change->confirm) {
        change->op.changed = same && body->fresh;
        body->fresh = body->fresh && !same;
        return same;
    }
    if (change->to_copy && !body->pair[0]) {
        snprintf(body->pair, sizeof body->pair, "%.*s",
                 VIEW_ARGS(view_first(evidence->nonce, PAIR_SIZE)));
        body->fresh = true;
        change->op.changed = true;
    }
    if (change->to_copy) {
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

/* Adds the document's limits to those of the copy. If either set is incomplete, so is the sum.
 * Returns whether that changed the copy. */
static bool merge_limits(struct epoch_limits *limits, const struct epoch_limits *more)
{
    const struct epoch_limits before = *limits;
    limits->known = limits->known && more->known;
    for (size_t kind = 0; kind < TABLE_KINDS; kind++)
        for (size_t i = 0; i < more->of[kind].count; i++)
            limits_add(&limits->of[kind], more->of[kind].of[i]);
    bool changed = limits->known != before.known;
    for (size_t kind = 0; kind < TABLE_KINDS; kind++)
        changed = changed || !limits_equal(&limits->of[kind], &before.of[kind]);
    return changed;
}

static enum hf_status apply_epoch_change(struct doc_op *op, void *argument,
                                         const struct evidence *evidence)
{
    struct epoch_op *change = (struct epoch_op *)(void *)op;
    struct epoch_body *body = argument;
    uint64_t epoch = body->epoch;
    if (change->by > EPOCH_MAX - epoch || change->at_least > EPOCH_MAX)
        return error_set(&op->error, HF_UNAVAILABLE, "the namespace has no epochs left");
    op->changed = body->unwritten;
    change->stale = !apply_pair(change, body, evidence);
    change->before = change->epoch = epoch;
    if (change->stale)
        return HF_OK;
    epoch += change->by;
    if (epoch < change->at_least)
        epoch = change->at_least;
    op->changed = op->changed || epoch != body->epoch;
    body->epoch = change->epoch = epoch;
    if (change->confirm && merge_limits(&body->limits, &change->limits))
        op->changed = true;
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

enum hf_status epoch_change_file(struct epoch_file *file, struct epoch_op *change,
                                 struct hf_error *error)
{
    struct epoch_key space;
    struct doc *doc;
    enum hf_status status = doc_new(file->ref.store, file->ref.clock,
                                    epoch_key_of(file, &space), &epoch_type, file, &doc, error);
    if (status != HF_OK)
        return status;
    change->to_copy = file->is_copy;
    change->op = (struct doc_op){ .apply = apply_epoch_change, .deadline = file->ref.deadline };
    status = doc_update(doc, &change->op);
    if (status != HF_OK)
        *error = change->op.error;
    doc_free(doc);
    return status;
}

/* Changes the copy, then the document. A confirmed copy is therefore never behind the document,
 * and can replace it if it is lost. A recreated copy is confirmed last, in a third write that also
 * brings it up to the epoch and the limits that the document had when it was given the copy's id.
 * A client that wrote to the former copy finds another id in the document, changes nothing there,
 * and starts again. *ret_again: the change must be repeated. */
static enum hf_status change_both(struct epoch_file *copy, struct epoch_file *document,
                                  struct epoch_op *change, bool *ret_again,
                                  struct hf_error *error)
{
    struct epoch_op first = *change;
    enum hf_status status = epoch_change_file(copy, &first, error);
    struct epoch_op second = first;
    second.by = 0;
    second.at_least = first.epoch;
    /* The document may be given another id in two cases: the copy was just recreated, or the
     * previous round already found this copy, so it is the document that names a lost one. */
    second.pair_anew = first.fresh || view_equal(view_of(first.pair), view_of(change->pair));
    document->empty = copy->empty;
    if (status == HF_OK)
        status = epoch_change_file(document, &second, error);
    struct epoch_op third = { .pair = { 0 }, .confirm = true, .at_least = second.epoch };
    memcpy(third.pair, second.pair, sizeof third.pair);
    third.limits = second.limits;
    bool confirm = !second.stale && (first.fresh || second.paired);
    if (status == HF_OK && confirm)
        status = epoch_change_file(copy, &third, error);
    *ret_again = second.stale || (confirm && third.stale);
    /* The copy was behind the document, so another client may have raised the epoch to the very
     * value that we raised the copy to. Our raise must exceed the document's own epoch. */
    if (confirm && change->by > 0 && second.before >= first.epoch) {
        change->at_least = second.before + change->by;
        *ret_again = true;
    }
    memcpy(change->pair, first.pair, sizeof change->pair);
    change->epoch = second.epoch;
    change->limits = second.limits;
    change->limit = second.limit;
    change->longest = first.longest.us > second.longest.us ? first.longest : second.longest;
    return status;
}

/* Waits for the client that has written the blank to fill both objects. Many clients may use a new
 * namespace at the same time, and if all of them searched for tokens, in the tables of all of them,
 * none would be done in time. OK: the epoch exists, or this client creates it itself, because the
 * other one may have died. TIMEOUT: there is not enough time for that. `took`: how long a request
 * takes at the moment. */
static enum hf_status await_creation(const struct epoch_ref *ref, struct span took,
                                     struct hf_error *error)
{
    struct env *env = ref->store->env;
    struct epoch_file document = { .ref = *ref };
    struct mono_time now = env_now(env);
    struct span part = SPAN_US(mono_since(ref->deadline, now).us / CREATION_TIME_PART);
    struct span enough = span_larger(SPAN_US(CREATION_REQUESTS * took.us), CREATION_WAIT_MIN);
    part = span_smaller(part, span_smaller(enough, CREATION_WAIT_MAX));
    struct mono_time end = mono_add(mono_add(now, part), env_jitter(env, part));
    struct span pause = SPAN_US(CREATION_PAUSE * took.us + 1);
    enum hf_status status = HF_NOT_FOUND;
    while (epoch_is_lost(status) && mono_before(now, end)) {
        struct epoch_body *made = NULL;
        pause = span_smaller(pause, CREATION_PAUSE_MAX);
        env_sleep_until(env, mono_earlier(end, mono_add(now, env_jitter(env, pause))));
        struct mono_time asked = env_now(env);
        status = read_epoch_file(&document, &made, error);
        epoch_body_free(made);
        now = env_now(env);
        took = mono_since(now, asked);
        pause = span_larger(SPAN_US(2 * pause.us), SPAN_US(CREATION_PAUSE * took.us));
    }
    if (!epoch_is_lost(status))
        return status;
    struct span needed = env_jitter(env, SPAN_US(SEARCH_REQUESTS * took.us));
    if (needed.us < mono_since(ref->deadline, now).us)
        return error_clear(error);
    env_sleep_until(env, ref->deadline);
    return error_set(error, HF_TIMEOUT, "another client has not created the epoch in time");
}

/* *ret_epoch is set on success; it may be NULL. */
static enum hf_status change_epoch(const struct epoch_ref *ref, struct epoch_op *change,
                                   uint64_t *ret_epoch, struct hf_error *error)
{
    const struct epoch_op asked = *change;
    struct epoch_file copy = {
        .ref = *ref, .is_copy = true, .rebuild = change->rebuild, .waited = change->waited
    };
    struct epoch_file document = { .ref = *ref,
                                   .rebuild = change->rebuild,
                                   .waited = change->waited };
    struct env *env = ref->store->env;
    enum hf_status status = HF_OK;
    bool again = true;
    MUTANT(mutant_changes_document_first(&document, change, &status, error));
    for (int tries = 0; tries < REPLACE_TRIES_MAX; tries++) {
        if (status != HF_OK || !again)
            break;
        struct mono_time began = env_now(env);
        status = change_both(&copy, &document, change, &again, error);
        if (status == CREATED_BY_ANOTHER) {
            struct span took = SPAN_US(mono_since(env_now(env), began).us / BLANK_REQUESTS);
            status = await_creation(ref, took, error);
            copy.waited = document.waited = again = true;
            *change = asked;
        }
    }
    if (status == HF_OK && again)
        return error_set(error, HF_UNAVAILABLE,
                         "the epoch of the namespace keeps getting lost; check what deletes "
                         "or damages objects under .holdfast/");
    if (status == HF_OK && ret_epoch)
        *ret_epoch = change->epoch;
    return status;
}

enum hf_status epoch_have(const struct epoch_ref *ref, uint64_t *ret_epoch,
                          struct epoch_limits *ret_limits, struct hf_error *error)
{
    struct epoch_body *body = NULL;
    struct epoch_op change = { .by = 0 };
    bool whole, begun = false;
    struct mono_time began = env_now(ref->store->env);
    enum hf_status status = read_either(ref, &body, &whole, &begun, error);
    if (begun && epoch_is_lost(status) && RULE(CREATOR_GOES_FIRST)) {
        struct span took = SPAN_US(mono_since(env_now(ref->store->env), began).us / 2);
        enum hf_status waited = await_creation(ref, took, error);
        status = waited == HF_OK ? HF_NOT_FOUND : waited;
        change.waited = true;
    }
    if (status == HF_OK) {
        change.epoch = body->epoch;
        change.limits = body->limits;
        epoch_body_free(body);
    }
    /* A value that is only in the copy is not used before the document has it too. It may come
     * from a change that is still in progress, or from a client that died before the second
     * write. */
    if (status == HF_OK ? !whole : epoch_is_lost(status))
        status = change_epoch(ref, &change, /* ret_epoch */ NULL, error);
    if (status == HF_OK)
        *ret_epoch = change.epoch;
    if (status == HF_OK && ret_limits)
        *ret_limits = change.limits;
    return status;
}

enum hf_status epoch_raise(const struct epoch_ref *ref, uint64_t by, uint64_t *ret_epoch,
                           struct hf_error *error)
{
    return change_epoch(ref, &(struct epoch_op){ .by = by }, ret_epoch, error);
}

enum hf_status epoch_rebuild(const struct epoch_ref *ref, uint64_t at_least,
                             uint64_t *ret_epoch, struct hf_error *error)
{
    struct epoch_op change = { .at_least = at_least, .rebuild = true };
    return change_epoch(ref, &change, ret_epoch, error);
}

enum hf_status epoch_raise_restored(const struct epoch_ref *ref, uint64_t by,
                                    uint64_t *ret_epoch, struct hf_error *error)
{
    struct epoch_op change = { .by = by, .forget_limits = true };
    return change_epoch(ref, &change, ret_epoch, error);
}

enum hf_status epoch_raise_after_damage(const struct table_space *space, enum table_kind kind,
                                        struct mono_time deadline, uint64_t *ret_epoch,
                                        struct span *ret_longest, struct hf_error *error)
{
    struct epoch_ref ref = epoch_of_tables(space, deadline);
    struct epoch_op change = { .space = space, .kind = kind };
    if (RULE(DAMAGE_RAISES_EPOCH))
        change.by = 1;
    enum hf_status status = change_epoch(&ref, &change, ret_epoch, error);
    if (status == HF_OK)
        *ret_longest = change.longest;
    return status;
}

enum hf_status epoch_record_limit(const struct table_space *space, enum table_kind kind,
                                  struct span ttl, struct mono_time deadline,
                                  struct ttl_limit *ret_limit, struct hf_error *error)
{
    struct epoch_ref ref = epoch_of_tables(space, deadline);
    struct epoch_op change = { .space = space, .kind = kind, .record = ttl };
    struct evidence evidence = { .nonce = VIEW("") };
    struct epoch_limits limits;
    uint64_t epoch;
    enum hf_status status = epoch_have(&ref, &epoch, &limits, error);
    clock_evidence(space->clock, &evidence);
    if (status != HF_OK || (limits.known && limits_find(&limits.of[kind], &space->settings, ttl,
                                                        &space->policy, &evidence, ret_limit)))
        return status;
    status = change_epoch(&ref, &change, /* ret_epoch */ NULL, error);
    if (status == HF_OK)
        *ret_limit = change.limit;
    return status;
}
