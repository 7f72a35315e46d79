/* full.c: everything, whatever the indexes say: the whole bucket is listed, and what is ours is
 * looked at: tables and records without entries, states and fenced bodies that nothing names. */
#include "base/check.h"
#include "base/layout.h"
#include "base/parse.h"
#include "base/rule.h"
#include "lock/fenced_inside.h"
#include "sweep/sweep_inside.h"

#include <stdio.h>

/* An object of the listing, and how long ago it was written, by the store's clock. Where the store
 * has none nobody can tell: its calendar and ours may be of two machines, and be set. */
struct object {
    struct view key;
    const struct etag *etag;
    bool age_known;
    struct span age;
};

/* Whether it certainly stands there for so many times D: dates are cut to the second, and front
 * ends disagree. */
static bool is_past_d(const struct sweep_run *run, const struct object *object, int times)
{
    const struct lease_settings *settings = &run->client->space.settings;
    return object->age_known && object->age.us > times * settings->late_bound.us +
                                                     settings->skew_tolerance.us +
                                                     2 * CLOCK_DATE_GRAIN.us;
}

/* On condition of its ETag where the store can: so one that is gone is not counted. */
static enum hf_status delete_object(struct sweep_run *run, const struct object *object,
                                    uint64_t *count, struct hf_error *error)
{
    struct store *store = run->client->store;
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

/* Bodies that a crash left named as old: nothing else would delete them if nobody ever changes the
 * key again. */
static enum hf_status delete_old(struct sweep_run *run, struct place *place,
                                 const struct table_sight *sight, struct view name,
                                 struct hf_error *error)
{
    struct change seen, forget;
    struct view ns = view_of(run->client->space.ns);
    size_t gone = 0;
    if (run->options->dry_run) {
        run->report->states_deleted += sight->old;
        return HF_OK;
    }
    change_init(&seen, CHANGE_LOOK);
    change_init(&forget, CHANGE_FORGET);
    enum hf_status status = change_ask(place, &seen, run_deadline(run), error);
    if (status == HF_OK)
        bodies_delete(run->client, ns, name, seen.state.old, seen.state.old_count, &gone);
    if (status == HF_OK && gone > 0) {
        forget.old = seen.state.old;
        forget.old_count = gone;
        status = change_ask(place, &forget, run_deadline(run), error);
    }
    run->report->states_deleted += gone;
    change_release(&forget);
    change_release(&seen);
    return status;
}

/* A table that nobody uses: purged if it stands there for D; where nobody can tell, the index shall
 * know it then. */
static enum hf_status deal_with_stub(struct sweep_run *run, const struct object *object,
                                     const struct table_sight *sight, struct hf_error *error)
{
    struct hf_client *client = run->client;
    enum hf_status status = HF_OK;
    if (is_past_d(run, object, 1)) {
        status = stub_purge(run, object->key, sight, object->etag, error);
    } else if (!object->age_known && sight->etag.size > 0 && !run->options->dry_run) {
        struct evidence evidence = run_evidence(run);
        status = expiry_write(client, object->key, hour_of_purge(client, &evidence),
                              &sight->etag, run_deadline(run), error);
    }
    return status == HF_CONFLICT || status == HF_NOT_FOUND ? HF_OK : status;
}

static enum hf_status clear(struct sweep_run *run, const struct object *object,
                            struct place *place, struct hf_error *error)
{
    struct table_sight sight;
    struct view name;
    enum hf_status status = table_clear(run, place, &sight, error);
    if (status == HF_NOT_FOUND)
        return HF_OK;
    if (status == HF_OK && sight.old > 0 && sight.held == 0 &&
        table_key_name(run->client, object->key, &name))
        return delete_old(run, place, &sight, name, error);
    if (status != HF_OK || !sight.stub || !run->client->store->traits.delete_conditional)
        return status;
    return deal_with_stub(run, object, &sight, error);
}

static enum hf_status visit_table(struct sweep_run *run, const struct object *object,
                                  struct hf_error *error)
{
    struct place *place;
    enum hf_status status = place_take(run->client, object->key, &place, error);
    if (status != HF_OK)
        return status;
    status = clear(run, object, place, error);
    place_drop(place);
    return status;
}

/* ---- States -------------------------------------------------------------------------- */

/* Whether a body is, or can still be, named by its document; and a guest that finds out in a
 * write of it. */
struct naming {
    struct table_guest guest; /* first */
    const struct sweep_run *run;
    struct body_name body;
    bool needed; /* a version has it, or a lease of its token could publish it */
    bool named;
};

/* A dry run leaves leases that a run would have cleared. */
static bool is_token_held(const struct naming *naming, const struct lease_table *table,
                          const struct evidence *evidence)
{
    const struct lease *lease = table_find_token(table, naming->body.token);
    bool cleared = lease && evidence && naming->run->options->dry_run &&
                   table_lease_over(naming->run, table, lease, evidence);
    return lease && !cleared;
}

static void find_name(struct naming *naming, const struct lease_table *table,
                      const struct evidence *evidence)
{
    struct key_state state;
    state_init(&state);
    bool read = state_read(buffer_view(&table->state), &state, NULL) == HF_OK;
    /* What nobody can read may have named it. */
    naming->named = !read || state.lost || state_names_body(&state, &naming->body);
    naming->needed = naming->named || is_token_held(naming, table, evidence);
    state_release(&state);
}

static void look_for_name(void *argument, const void *body, const struct evidence *evidence)
{
    find_name(argument, body, evidence);
}

static void after(struct table_guest *guest, struct lease_table *table,
                  const struct table_op *op, bool *changed)
{
    (void)op;
    (void)changed;
    find_name((struct naming *)(void *)guest, table, /* evidence */ NULL);
}

/* Writes the document, so that no earlier write that is still under way can land and name it. */
static enum hf_status shut_out(struct sweep_run *run, struct place *place,
                               struct naming *naming, struct hf_error *error)
{
    struct request request, *one = &request;
    request_init(&request, place, TABLE_KEEP, run_deadline(run));
    request.op.settle = true;
    request.guest = &naming->guest;
    request.mode = run->options->mode;
    enum hf_status status = place_ask(place, &one, 1);
    if (status != HF_OK)
        *error = request.op.error;
    return status;
}

/* A state whose document is not there. Nobody who keeps to the protocol names it any more: a key
 * that has a state is not purged. But documents may come back, or come later: of a bucket that is
 * being copied or restored, of a store that lists what it does not show yet. So it goes once it has
 * stood there alone for 2 D, by the store's dates or since a sweep first met it. */
static enum hf_status deal_with_lone_state(struct sweep_run *run, const struct object *object,
                                           struct hf_error *error)
{
    struct span twice = SPAN_US(2 * run->client->space.settings.late_bound.us);
    bool passed = is_past_d(run, object, 2);
    enum hf_status status = HF_OK;
    if (!object->age_known)
        status = sight_passed(run, object->key, twice, &passed, error);
    if (status == HF_OK && passed)
        status = delete_object(run, object, &run->report->states_deleted, error);
    if (status == HF_OK && passed && !object->age_known)
        status = sight_forget(run, object->key, error);
    return status;
}

static enum hf_status deal_with_state(struct sweep_run *run, const struct object *object,
                                      struct place *place, struct naming *naming,
                                      struct hf_error *error)
{
    uint64_t *count = &run->report->states_deleted;
    enum hf_status status =
        doc_look(place->doc, run_deadline(run), look_for_name, naming, error);
    if (status == HF_NOT_FOUND)
        return deal_with_lone_state(run, object, error);
    if (status == HF_OK && !RULE(UNNAMED_AFTER_A_SWAP))
        return naming->named ? HF_OK : delete_object(run, object, count, error);
    if (status == HF_OK && !naming->needed && !run->options->dry_run)
        status = shut_out(run, place, naming, error);
    if (status == HF_OK && !naming->needed)
        status = delete_object(run, object, count, error);
    return status;
}

/* "<ns>/state/<name>/<token>-<etag>": the key of its document, and what its own name says. */
static bool document_of_state(const struct sweep_run *run, struct view key,
                              char ret_table[KEY_BYTES_MAX + 1], struct body_name *ret_body)
{
    struct view ns = view_of(run->client->space.ns);
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
    struct naming naming = { .guest = { .after = after }, .run = run };
    char table_key[KEY_BYTES_MAX + 1];
    struct place *place;
    if (!document_of_state(run, object->key, table_key, &naming.body))
        return error_set(error, HF_MISMATCH, "this is no state of a key");
    enum hf_status status = place_take(run->client, view_of(table_key), &place, error);
    if (status != HF_OK)
        return status;
    status = deal_with_state(run, object, place, &naming, error);
    place_drop(place);
    return status;
}

static enum hf_status is_there(struct sweep_run *run, struct view key, bool *ret_there,
                               struct hf_error *error)
{
    struct buffer body = BUFFER_INIT(1);
    struct get_call get = {
        .key = key, .length = 1, .body = &body, .deadline = run_deadline(run)
    };
    enum hf_status status = store_get(run->client->store, &get);
    buffer_release(&body);
    *ret_there = status == HF_OK;
    if (status == HF_OK || status == HF_NOT_FOUND)
        return HF_OK;
    *error = get.error;
    return status;
}

/* What was seen is over when the state is gone, or its document is there. */
static enum hf_status visit_sight(struct sweep_run *run, const struct object *object,
                                  struct hf_error *error)
{
    struct view state = view_from(object->key, strlen(LAYOUT_SIGHT_FOLDER));
    char table_key[KEY_BYTES_MAX + 1];
    struct body_name body;
    bool has_state = false, has_document = false;
    if (!document_of_state(run, state, table_key, &body))
        return error_set(error, HF_MISMATCH, "this is no sight of a state");
    enum hf_status status = is_there(run, state, &has_state, error);
    if (status == HF_OK && has_state)
        status = is_there(run, view_of(table_key), &has_document, error);
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
        return error_set(error, HF_MISMATCH, "this is no record of a transaction");
    return record_clear(run, id, &gone, error);
}

/* "<digits>-<digits>-<nonce>" */
static bool is_body_name(struct view name)
{
    for (int i = 0; i < 2; i++) {
        struct view digits = view_cut(&name, '-');
        if (digits.size == 0 || !text_is_decimal(digits, digits.size))
            return false;
    }
    return text_is_hex(name, NONCE_SIZE);
}

/* The object that a body belongs to: "<object>.hf/<body>". */
static bool object_of_body(struct view key, struct view *ret_object)
{
    struct view folder = VIEW(LAYOUT_BODY_FOLDER);
    size_t cut = key.size;
    while (cut > 0 && key.data[cut - 1] != '/')
        cut--;
    *ret_object = view_first(key, cut - (cut < folder.size ? cut : folder.size));
    return ret_object->size > 0 && view_ends_with(view_first(key, cut), folder) &&
           is_body_name(view_from(key, cut));
}

/* Whether nobody can name a body any more that the fence does not. Who writes one sends
 * the swap that names it soon after, and that lands within D: so one that is not named 2 D later
 * never is. A fence never goes back to a lower token. */
static bool is_shut_out(const struct sweep_run *run, const struct object *object,
                        const struct fence *fence)
{
    size_t cut = object->key.size;
    uint64_t token;
    while (object->key.data[cut - 1] != '/')
        cut--;
    struct view name = view_from(object->key, cut);
    return is_past_d(run, object, 2) ||
           (parse_u64(view_cut(&name, '-'), UINT64_MAX, &token, NULL) == HF_OK &&
            token < fence->stamp.token);
}

/* What is no fence, or one that we cannot read, says nothing: then the body stays. */
static enum hf_status visit_body(struct sweep_run *run, const struct object *object,
                                 struct hf_error *error)
{
    struct fence fence = { .kind = FENCE_NONE };
    struct view owner;
    if (!object_of_body(object->key, &owner))
        return HF_OK;
    enum hf_status status = fenced_read_fence(run->client, owner, &fence, error);
    if (status == HF_MISMATCH || status == HF_CORRUPT || status == HF_UNSUPPORTED)
        return HF_OK;
    if (status != HF_OK && status != HF_NOT_FOUND)
        return status;
    bool named = status == HF_OK && fence.kind == FENCE_BODY &&
                 view_equal(fence_text(&fence), object->key);
    if (named || !is_shut_out(run, object, &fence))
        return HF_OK;
    return delete_object(run, object, &run->report->bodies_deleted, error);
}

/* ---- The bucket ---------------------------------------------------------------------- */

typedef enum hf_status visit_object(struct sweep_run *run, const struct object *object,
                                    struct hf_error *error);

static bool is_state(const struct hf_client *client, struct view key)
{
    struct view ns = view_of(client->space.ns);
    return view_starts_with(key, ns) &&
           view_starts_with(view_from(key, ns.size), VIEW(LAYOUT_STATE_FOLDER));
}

/* Who deals with an object; NULL: it is not ours. */
static visit_object *visitor_of(const struct hf_client *client, struct view key)
{
    struct view owner;
    if (view_starts_with(key, VIEW(LAYOUT_TXN_FOLDER)))
        return visit_record;
    if (is_state(client, key))
        return visit_state;
    if (view_starts_with(key, VIEW(LAYOUT_SIGHT_FOLDER)) &&
        is_state(client, view_from(key, strlen(LAYOUT_SIGHT_FOLDER))))
        return visit_sight;
    if (object_of_body(key, &owner))
        return visit_body;
    return expiry_has(client, key) ? visit_table : NULL;
}

/* The namespace of an object, or of what a note about it names. Else it stays as it is. */
static enum hf_status enter_space_of(struct sweep_run *run, struct view key,
                                     struct hf_error *error)
{
    size_t index;
    if (view_starts_with(key, VIEW(LAYOUT_SIGHT_FOLDER)))
        key = view_from(key, strlen(LAYOUT_SIGHT_FOLDER));
    return space_of_key(run, key, &index) ? space_enter(run, index, error) : HF_OK;
}

static void visit(struct sweep_run *run, const struct list_call *list, size_t index)
{
    const struct list_entry *entry = &list->entries[index];
    struct object object = { .key = entry->key,
                             .etag = &entry->info.etag,
                             .age_known = list->stamp.known && entry->info.modified.us > 0,
                             .age = wall_since(list->stamp.date, entry->info.modified) };
    struct hf_error error;
    enum hf_status status = enter_space_of(run, entry->key, &error);
    visit_object *deal = status == HF_OK ? visitor_of(run->client, entry->key) : NULL;
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
        for (size_t i = 0; i < pages.list.count && !run->stopped; i++) {
            visit(run, &pages.list, i);
            if (!run->stopped || run->stop == HF_SWEEP_STOP_FAILED)
                cursor_set(run->cursor->full, pages.list.entries[i].key);
        }
    enum hf_status status = pages_end(&pages, HF_OK, error);
    if (status == HF_OK && !run->stopped)
        run->cursor->full[0] = '\0';
    return status;
}
