/* SPDX-License-Identifier: Apache-2.0 */
/* full.c: a full sweep: lists the whole bucket and checks all of Holdfast's objects, regardless of
 * the indexes. It guards against deleting a body that a late write may still name: a body is
 * deleted only when no such write can take effect any more. */
#include "base/check.h"
#include "base/layout.h"
#include "base/parse.h"
#include "base/rule.h"
#include "lock/fenced.h"
#include "sweep/sweep_inside.h"

#include <stdio.h>

/* A listed object, and its age by the store's clock. On a store without a clock the age is
 * unknown, because the wall clocks of two machines may differ or be changed. */
struct object {
    struct view key;
    const struct etag *etag;
    bool age_known;
    struct span age;
};

/* Whether the object is known to have existed for this many times D. This allows for dates that are
 * truncated to the second, and for front ends whose clocks differ. */
static bool is_older_than_d(const struct sweep_run *run, const struct object *object, int times)
{
    const struct lease_settings *settings = client_settings(run->client);
    return object->age_known && object->age.us > times * settings->late_bound.us +
                                                     settings->skew_tolerance.us +
                                                     2 * CLOCK_DATE_GRAIN.us;
}

/* Deletes an object, on condition of its ETag if the store supports this. An object that is
 * already gone is then not counted. */
static enum hf_status delete_object(struct sweep_run *run, const struct object *object,
                                    uint64_t *count, struct hf_error *error)
{
    struct store *store = client_store(run->client);
    struct delete_call call = { .key = object->key, .deadline = run_deadline(run) };
    enum hf_status status = HF_OK;
    if (store->traits.delete_conditional)
        call.condition = if_match(object->etag);
    if (!run->options->dry_run)
        status = store_delete(store, &call);
    if (status == HF_NOT_FOUND || status == HF_CONFLICT)
        return HF_OK;
    if (status != HF_OK)
        *error = call.error;
    *count += status == HF_OK;
    return status;
}

/* ---- Tables -------------------------------------------------------------------------- */

/* Deletes bodies that a crash left listed as old. Nothing else would delete them if the key is
 * never changed again. */
static enum hf_status delete_old_states(struct sweep_run *run, struct table_ref *ref,
                                        const struct table_summary *summary, struct view name,
                                        struct hf_error *error)
{
    struct change seen, forget;
    size_t gone = 0;
    if (run->options->dry_run) {
        run->report->states_deleted += summary->old;
        return HF_OK;
    }
    change_init(&seen, CHANGE_LOOK);
    change_init(&forget, CHANGE_FORGET);
    enum hf_status status = change_ask(ref, &seen, run_deadline(run), error);
    if (status == HF_OK)
        bodies_delete(run->client, name, seen.state.old, seen.state.old_count, &gone);
    if (status == HF_OK && gone > 0) {
        forget.old = seen.state.old;
        forget.old_count = gone;
        status = change_ask(ref, &forget, run_deadline(run), error);
    }
    run->report->states_deleted += gone;
    change_release(&forget);
    change_release(&seen);
    return status;
}

/* Handles a table that no client uses: purges it if it has existed for D. If its age is unknown,
 * it gets an index entry under the hour that is D from now. */
static enum hf_status purge_old_stub(struct sweep_run *run, const struct object *object,
                                     const struct table_summary *summary,
                                     struct hf_error *error)
{
    struct hf_client *client = run->client;
    enum hf_status status = HF_OK;
    if (is_older_than_d(run, object, 1)) {
        status = stub_purge(run, object->key, summary, object->etag, error);
    } else if (!object->age_known && summary->etag.size > 0 && !run->options->dry_run) {
        struct evidence evidence = run_evidence(run);
        status = expiry_write(client, object->key, hour_of_purge(client, &evidence),
                              &summary->etag, run_deadline(run), error);
    }
    return status == HF_CONFLICT || status == HF_NOT_FOUND ? HF_OK : status;
}

static enum hf_status visit_table(struct sweep_run *run, const struct object *object,
                                  struct hf_error *error)
{
    struct table_ref *ref;
    struct table_summary summary;
    struct view name;
    enum hf_status status = table_ref_take(run->client, object->key, &ref, error);
    if (status != HF_OK)
        return status;
    status = table_clear(run, ref, &summary, error);
    if (status == HF_NOT_FOUND)
        status = HF_OK;
    else if (status == HF_OK && summary.old > 0 && summary.held == 0 &&
             table_key_name(run->client, object->key, &name))
        status = delete_old_states(run, ref, &summary, name, error);
    else if (status == HF_OK && summary.stub &&
             client_store(run->client)->traits.delete_conditional)
        status = purge_old_stub(run, object, &summary, error);
    table_ref_drop(ref);
    return status;
}

/* ---- States -------------------------------------------------------------------------- */

/* Determines whether a document names a body, or whether a lease could still publish it. Runs as a
 * hook of a write to that document. */
struct name_search {
    struct table_hook hook; /* must be the first member */
    const struct sweep_run *run;
    struct body_name body;
    bool needed; /* a version has it, or a lease with its token could publish it */
};

static void find_name(struct name_search *search, const struct lease_table *table,
                      const struct evidence *evidence)
{
    struct key_state state;
    state_init(&state);
    bool read = state_read(buffer_view(&table->state), &state, NULL) == HF_OK;
    /* An unreadable state may have named the body. */
    bool named = !read || state.lost || state_names_body(&state, &search->body);
    const struct lease *lease = table_find_token(table, search->body.token);
    /* A dry run does not clear ended leases, so they are checked here. */
    bool over = lease && evidence && search->run->options->dry_run &&
                table_lease_over(search->run, table, lease, evidence);
    search->needed = named || (RULE(UNNAMED_AFTER_A_SWAP) && lease && !over);
    state_release(&state);
}

static void find_name_in_body(void *argument, const void *body, const struct evidence *evidence)
{
    find_name(argument, body, evidence);
}

static void find_name_after(struct table_hook *hook, struct lease_table *table,
                            const struct table_op *op, bool *changed)
{
    struct name_search *search = (struct name_search *)(void *)hook;
    (void)op;
    find_name(search, table, /* evidence */ NULL);
    /* A client that changes the key without a lease writes its body under the token that the
     * document issues next. Once that token is used up, no document can name the body any more. */
    uint64_t token = search->body.token, next = table->next_token;
    bool same_epoch = token >> 32 == next >> 32;
    if (search->needed || next == 0 || token < next)
        return;
    search->needed = !same_epoch || (token & UINT32_MAX) == UINT32_MAX;
    if (RULE(SWEEP_USES_UP_THE_TOKEN) && !search->needed) {
        table->next_token = token + 1;
        *changed = true;
    }
}

/* Writes the document. After that, no earlier write to the document that is still in progress can
 * take effect and refer to the body. */
static enum hf_status shut_out_late_writes(struct sweep_run *run, struct table_ref *ref,
                                           struct name_search *search, struct hf_error *error)
{
    struct request request, *one = &request;
    request_init(&request, ref, TABLE_KEEP, run_deadline(run));
    request.op.settle = true;
    request.hook = &search->hook;
    request.mode = run->options->mode;
    enum hf_status status = table_ref_ask(ref, &one, 1);
    if (status != HF_OK)
        *error = request.op.error;
    return status;
}

/* Handles a state whose document is missing. No client that follows the protocol can name such a
 * state any more, because a key that has a state is never purged. But the document may appear
 * later, when a bucket is copied or restored, or when a store lists an object before it can be
 * read. So the state is deleted only after it has existed for 2 D according to the store's
 * timestamps, or 2 D after a sweep first found it. */
static enum hf_status delete_lone_state(struct sweep_run *run, const struct object *object,
                                        struct hf_error *error)
{
    struct span twice = SPAN_US(2 * client_settings(run->client)->late_bound.us);
    bool passed = is_older_than_d(run, object, 2);
    enum hf_status status = HF_OK;
    if (!object->age_known)
        status = sight_passed(run, object->key, twice, &passed, error);
    if (status == HF_OK && passed)
        status = delete_object(run, object, &run->report->states_deleted, error);
    if (status == HF_OK && passed && !object->age_known)
        status = sight_forget(run, object->key, error);
    return status;
}

static enum hf_status delete_unnamed_state(struct sweep_run *run, const struct object *object,
                                           struct table_ref *ref, struct name_search *search,
                                           struct hf_error *error)
{
    enum hf_status status =
        doc_look(ref->doc, run_deadline(run), find_name_in_body, search, error);
    if (status == HF_NOT_FOUND)
        return delete_lone_state(run, object, error);
    if (RULE(UNNAMED_AFTER_A_SWAP) && status == HF_OK && !search->needed &&
        !run->options->dry_run)
        status = shut_out_late_writes(run, ref, search, error);
    if (status == HF_OK && !search->needed)
        status = delete_object(run, object, &run->report->states_deleted, error);
    return status;
}

/* For "<ns>/state/<name>/<token>-<etag>": the key of the state's document, and the parts of the
 * state's own name. */
static bool document_of_state(const struct sweep_run *run, struct view key,
                              char ret_table[KEY_BYTES_MAX + 1], struct body_name *ret_body)
{
    struct view ns = view_of(client_ns(run->client));
    struct view name = view_from(key, ns.size + strlen(LAYOUT_STATE_FOLDER));
    size_t cut = name.size;
    while (cut > 0 && name.data[cut - 1] != '/')
        cut--;
    return cut >= 2 && body_name_parse(view_from(name, cut), ret_body) &&
           key_document(ns, view_first(name, cut - 1), ret_table, NULL) == HF_OK;
}

static enum hf_status visit_state(struct sweep_run *run, const struct object *object,
                                  struct hf_error *error)
{
    struct name_search search = { .hook = { .after = find_name_after }, .run = run };
    char table_key[KEY_BYTES_MAX + 1];
    struct table_ref *ref;
    if (!document_of_state(run, object->key, table_key, &search.body))
        return error_set(error, HF_MISMATCH, "not a key's state");
    enum hf_status status = table_ref_take(run->client, view_of(table_key), &ref, error);
    if (status != HF_OK)
        return status;
    status = delete_unnamed_state(run, object, ref, &search, error);
    table_ref_drop(ref);
    return status;
}

static enum hf_status object_exists(struct sweep_run *run, struct view key, bool *ret_there,
                                    struct hf_error *error)
{
    struct buffer body = BUFFER_INIT(1);
    struct get_call get = {
        .key = key, .length = 1, .body = &body, .deadline = run_deadline(run)
    };
    enum hf_status status = store_get(client_store(run->client), &get);
    buffer_release(&body);
    *ret_there = status == HF_OK;
    if (status == HF_OK || status == HF_NOT_FOUND)
        return HF_OK;
    *error = get.error;
    return status;
}

/* Deletes a note about a state if it is obsolete: the state is gone, or its document exists. */
static enum hf_status visit_sight(struct sweep_run *run, const struct object *object,
                                  struct hf_error *error)
{
    struct view state = view_from(object->key, strlen(LAYOUT_SIGHT_FOLDER));
    char table_key[KEY_BYTES_MAX + 1];
    struct body_name body;
    bool has_state = false, has_document = false;
    if (!document_of_state(run, state, table_key, &body))
        return error_set(error, HF_MISMATCH, "not a note about a state");
    enum hf_status status = object_exists(run, state, &has_state, error);
    if (status == HF_OK && has_state)
        status = object_exists(run, view_of(table_key), &has_document, error);
    if (status == HF_OK && (!has_state || has_document))
        status = sight_forget(run, state, error);
    return status;
}

/* ---- Records and bodies of fenced objects -------------------------------------------- */

static enum hf_status visit_record(struct sweep_run *run, const struct object *object,
                                   struct hf_error *error)
{
    struct view id = view_from(object->key, strlen(LAYOUT_TXN_FOLDER));
    bool gone;
    if (!txn_id_valid(id))
        return error_set(error, HF_MISMATCH, "not a transaction record");
    return record_clear(run, id, &gone, error);
}

/* The object that a body belongs to, and its token: "<object>.hf/<token>-<digits>-<nonce>". */
static bool object_of_body(struct view key, struct view *ret_object, struct view *ret_token)
{
    struct view folder = VIEW(LAYOUT_BODY_FOLDER);
    size_t cut = key.size;
    while (cut > 0 && key.data[cut - 1] != '/')
        cut--;
    struct view nonce = view_from(key, cut);
    struct view token = view_cut(&nonce, '-'), number = view_cut(&nonce, '-');
    *ret_object = view_first(key, cut - (cut < folder.size ? cut : folder.size));
    *ret_token = token;
    return ret_object->size > 0 && view_ends_with(view_first(key, cut), folder) &&
           token.size > 0 && text_is_decimal(token, token.size) && number.size > 0 &&
           text_is_decimal(number, number.size) && text_is_hex(nonce, NONCE_SIZE);
}

/* Deletes a body that no fence names, also if there is no fence at all. If the fence cannot be
 * read, the body stays, because the fence may name it. */
static enum hf_status visit_body(struct sweep_run *run, const struct object *object,
                                 struct hf_error *error)
{
    struct fence fence = { .kind = FENCE_NONE };
    struct view owner, token_text;
    uint64_t token;
    if (!object_of_body(object->key, &owner, &token_text))
        return HF_OK;
    enum hf_status status = fenced_read_fence(run->client, owner, &fence, error);
    if (status == HF_MISMATCH || status == HF_CORRUPT || status == HF_UNSUPPORTED)
        return HF_OK;
    if (status != HF_OK && status != HF_NOT_FOUND)
        return status;
    bool named = status == HF_OK && fence.kind == FENCE_BODY &&
                 view_equal(fence_text(&fence), object->key);
    /* A writer sends the swap soon after the body, and the swap takes effect within D. So a body
     * that is not named after 2 D never will be. Nor will a body whose token is lower than the
     * fence's, because a fence's token never decreases. */
    bool shut_out =
        is_older_than_d(run, object, 2) ||
        (parse_u64(token_text, UINT64_MAX, &token, NULL) == HF_OK && token < fence.stamp.token);
    if (named || !shut_out)
        return HF_OK;
    return delete_object(run, object, &run->report->bodies_deleted, error);
}

/* ---- The bucket ---------------------------------------------------------------------- */

typedef enum hf_status visit_object(struct sweep_run *run, const struct object *object,
                                    struct hf_error *error);

static bool is_state(const struct hf_client *client, struct view key)
{
    struct view ns = view_of(client_ns(client));
    return view_starts_with(key, ns) &&
           view_starts_with(view_from(key, ns.size), VIEW(LAYOUT_STATE_FOLDER));
}

/* The function that handles an object; NULL if the object is not Holdfast's. */
static visit_object *choose_visitor(const struct hf_client *client, struct view key)
{
    struct view owner, token;
    if (view_starts_with(key, VIEW(LAYOUT_TXN_FOLDER)))
        return visit_record;
    if (is_state(client, key))
        return visit_state;
    if (view_starts_with(key, VIEW(LAYOUT_SIGHT_FOLDER)) &&
        is_state(client, view_from(key, strlen(LAYOUT_SIGHT_FOLDER))))
        return visit_sight;
    if (object_of_body(key, &owner, &token))
        return visit_body;
    if (client_has_mark_at(client, key))
        return NULL;
    return expiry_has(client, key) ? visit_table : NULL;
}

static void visit_listed(struct sweep_run *run, const struct list_call *list, size_t index)
{
    const struct list_entry *entry = &list->entries[index];
    struct object object = { .key = entry->key,
                             .etag = &entry->info.etag,
                             .age_known = list->stamp.known && entry->info.modified.us > 0,
                             .age = wall_since(list->stamp.date, entry->info.modified) };
    struct hf_error error;
    enum hf_status status = HF_OK;
    /* The namespace of the object, or of the object that a note is about. */
    struct view about = entry->key;
    size_t space;
    if (view_starts_with(about, VIEW(LAYOUT_SIGHT_FOLDER)))
        about = view_from(about, strlen(LAYOUT_SIGHT_FOLDER));
    if (space_of_key(run, about, &space))
        status = space_enter(run, space, &error);
    visit_object *deal = status == HF_OK ? choose_visitor(run->client, entry->key) : NULL;
    if ((status == HF_OK && !deal) || !run_next(run))
        return;
    if (status == HF_OK)
        status = deal(run, &object, &error);
    run_note(run, object.key, status, &error);
}

enum hf_status sweep_everything(struct sweep_run *run, struct hf_error *error)
{
    char from[KEY_BYTES_MAX + 1];
    cursor_set(from, view_of(run->cursor->full));
    struct pages pages = { .list = { .after = view_of(from) } };
    while (run_page(run, &pages))
        for (size_t i = 0; i < pages.list.count; i++) {
            if (run->stopped)
                break;
            visit_listed(run, &pages.list, i);
            if (!run->stopped || run->stop == HF_SWEEP_STOP_FAILED)
                cursor_set(run->cursor->full, pages.list.entries[i].key);
        }
    enum hf_status status = pages_end(&pages, HF_OK, error);
    if (status == HF_OK && !run->stopped)
        run->cursor->full[0] = '\0';
    return status;
}
