/* SPDX-License-Identifier: Apache-2.0 */
/* observe_keys.c: shows and lists the keys and transactions of a store. */
#include "api/lease_info.h"
#include "base/layout.h"
#include "key/key.h"
#include "lock/server.h"
#include "lock/table_reader.h"
#include "store/pages.h"

#include <stdio.h>

static_assert((int)HF_TXN_ABSENT == (int)TXN_ABSENT &&
                  (int)HF_TXN_PENDING == (int)TXN_PENDING &&
                  (int)HF_TXN_COMMIT == (int)TXN_COMMIT &&
                  (int)HF_TXN_ROLLBACK == (int)TXN_ROLLBACK,
              "the states of a transaction are the same inside and outside");

static_assert(HF_HOLDER_MAX == HOLDER_BYTES_MAX, "every holder fits");

/* Shared by both lists. */
struct listing {
    struct hf_client *client;
    struct hf_list_options options;
    void *argument;
    bool stopped; /* the caller stopped the list */
};

static bool is_damage(enum hf_status status)
{
    return status == HF_CORRUPT || status == HF_UNSUPPORTED;
}

/* ---- One key ------------------------------------------------------------------------- */

static struct hf_key_status described_status(const struct key_description *description)
{
    struct hf_key_status status = { .struct_size = sizeof status,
                                    .damaged = description->lost,
                                    .staged = description->staged,
                                    .held = description->held,
                                    .token = description->token,
                                    .remaining_ms = description->remaining.us / 1000,
                                    .waiters = description->waiters };
    if (description->held)
        snprintf(status.holder, sizeof status.holder, "%s", description->holder);
    return status;
}

enum hf_status hf_key_describe(struct hf_client *client, const char *name,
                               struct hf_key_info *info, struct hf_key_status *status,
                               struct hf_error *error)
{
    struct key_description description;
    if (key_info_begin(info, error) != HF_OK ||
        CHECK_REPORT(HF_KEY_STATUS, status, error) != HF_OK ||
        ERROR_IF_NULL(error, client, name) != HF_OK)
        return HF_INVALID;
    enum hf_status found = key_describe(client, name, &description, error);
    if (found != HF_OK)
        return found;
    struct hf_key_status filled = described_status(&description);
    write_caller_report(info, &description.info, sizeof description.info);
    write_caller_report(status, &filled, sizeof filled);
    return HF_OK;
}

static enum hf_status find_txn(void *argument, const struct table_snapshot *sight,
                               struct hf_error *error)
{
    char *txn = argument;
    struct key_state state;
    if (!sight->table) {
        *error = sight->error;
        return error->status;
    }
    state_init(&state);
    enum hf_status status = state_read(buffer_view(&sight->table->state), &state, error);
    if (status == HF_OK && state.staged)
        memcpy(txn, state.stage.txn, HF_TXN_ID_SIZE + 1);
    state_release(&state);
    return status;
}

enum hf_status hf_key_txn(struct hf_client *client, const char *name,
                          char ret_txn[HF_TXN_ID_SIZE + 1], struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1], txn[HF_TXN_ID_SIZE + 1] = "";
    struct hf_error why;
    struct table_reader look;
    if (ERROR_IF_NULL(error, client, name, ret_txn) != HF_OK)
        return HF_INVALID;
    enum hf_status status = key_document(view_of(client_ns(client)), view_of(name), key, &why);
    if (status != HF_OK)
        return error_tell(error, status, &why);
    table_reader_init(&look, client);
    look.briefly = true;
    status = table_reader_read(&look, view_of(key), find_txn, txn, &why);
    table_reader_release(&look);
    if (status == HF_NOT_FOUND)
        status = HF_OK;
    if (status == HF_OK)
        memcpy(ret_txn, txn, sizeof txn);
    return error_tell(error, status, &why);
}

/* ---- Many keys ----------------------------------------------------------------------- */

struct key_listing {
    struct listing list;
    hf_each_key *each;
};

/* The state of the transaction that has staged this key, read from the transaction's record:
 * PENDING if no transaction has staged it, ABSENT if there is no record. */
static enum hf_status read_stage_state(struct hf_client *client, const struct key_state *state,
                                       enum txn_state *ret_state, struct hf_error *error)
{
    struct txn_record record;
    *ret_state = TXN_PENDING;
    if (!state->staged || !state->stage.txn[0])
        return HF_OK;
    enum hf_status status = txn_look(client, view_of(state->stage.txn), &record, error);
    if (status == HF_OK) {
        *ret_state = record.state;
        record_release(&record);
    } else if (status == HF_NOT_FOUND) {
        *ret_state = TXN_ABSENT;
        status = HF_OK;
    }
    return status;
}

/* The version that any reader would see. If the transaction was committed, or its record is gone,
 * the state that we read may be outdated, so the key is read again. */
static enum hf_status read_shown_info(struct hf_client *client, const char *name,
                                      const struct key_state *state,
                                      struct hf_key_info *ret_info, struct hf_error *error)
{
    struct key_description description;
    enum txn_state decided;
    enum hf_status status = read_stage_state(client, state, &decided, error);
    if (status != HF_OK)
        return status;
    if (decided != TXN_COMMIT && decided != TXN_ABSENT) {
        key_info_fill(state, &state->now, HF_KEY_NONE, ret_info);
        return HF_OK;
    }
    status = key_describe(client, name, &description, error);
    if (status == HF_OK)
        *ret_info = description.info;
    return status;
}

static struct hf_key_status listed_status(const struct table_snapshot *sight,
                                          const struct key_state *state)
{
    const struct lease_table *table = sight->table;
    struct hf_key_status status = { .struct_size = sizeof status,
                                    .damaged = state->lost,
                                    .staged = state->staged,
                                    .waiters = table->waiter_count };
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        if (lease->status != LEASE_ACTIVE)
            continue;
        struct span left = lease_left(lease, &sight->evidence);
        status.held = true;
        status.token = lease->token;
        status.remaining_ms = left.us > 0 ? left.us / 1000 : 0;
        snprintf(status.holder, sizeof status.holder, "%.*s", VIEW_ARGS(lease->holder));
        break;
    }
    return status;
}

static enum hf_status report_key(struct key_listing *listing, const char *name,
                                 const struct table_snapshot *sight,
                                 const struct key_state *state, struct hf_error *error)
{
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_key_status shown = listed_status(sight, state);
    struct hf_error why;
    enum hf_status status = read_shown_info(listing->list.client, name, state, &info, &why);
    if (is_damage(status))
        return list_damaged(&listing->list.options, listing->list.argument, sight->key, &why,
                            error);
    if (status == HF_NOT_FOUND)
        return HF_OK;
    if (status != HF_OK) {
        *error = why;
        return status;
    }
    if (info.version == 0 && !shown.held && !shown.staged && !shown.damaged)
        return HF_OK; /* a lock without a key, or its remains */
    listing->list.stopped = !listing->each(listing->list.argument, name, &info, &shown);
    return listing->list.stopped ? HF_CANCELLED : HF_OK;
}

static enum hf_status list_key_table(void *argument, const struct table_snapshot *sight,
                                     struct hf_error *error)
{
    struct key_listing *listing = argument;
    struct key_state state;
    char name[NAME_BYTES_MAX + 1];
    struct hf_error why;
    enum hf_status status =
        list_proceeds(&listing->list.options, listing->list.argument, error);
    if (status != HF_OK ||
        !name_of_table(view_of(client_ns(listing->list.client)), sight->key, name))
        return status;
    if (!sight->table)
        return list_damaged(&listing->list.options, listing->list.argument, sight->key,
                            &sight->error, error);
    state_init(&state);
    status = state_read(buffer_view(&sight->table->state), &state, &why);
    status = status == HF_OK ? report_key(listing, name, sight, &state, error)
                             : list_damaged(&listing->list.options, listing->list.argument,
                                            sight->key, &why, error);
    state_release(&state);
    return status;
}

static enum hf_status list_keys_at_server(struct hf_client *client, struct key_listing *listing,
                                          const char *prefix, struct hf_error *error)
{
    struct server_key_list list = { client, view_of(prefix), listing->each,
                                    listing->list.argument };
    enum hf_status status =
        list_proceeds(&listing->list.options, listing->list.argument, error);
    return status == HF_OK ? client_server(client)->list_keys(&list, error) : status;
}

enum hf_status hf_keys_list(struct hf_client *client, const char *prefix,
                            const struct hf_list_options *options, hf_each_key *each,
                            void *argument, struct hf_error *error)
{
    struct key_listing listing = {
        .list = { .client = client, .options = HF_LIST_OPTIONS, .argument = argument },
        .each = each
    };
    struct buffer start = BUFFER_INIT(2 * KEY_BYTES_MAX);
    struct hf_error why;
    struct table_reader look;
    if (ERROR_IF_NULL(&why, client, prefix) != HF_OK ||
        error_if_none(&why, "each", each) != HF_OK ||
        READ_OPTIONS(HF_LIST_OPTIONS, options, &listing.list.options, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    if (client_server(client))
        return error_tell(error, list_keys_at_server(client, &listing, prefix, &why), &why);
    buffer_print(&start, "named:%s", prefix);
    table_reader_init(&look, client);
    enum hf_status status =
        start.failed
            ? error_set(&why, HF_INVALID, "no key can start with this prefix")
            : table_reader_list(&look, buffer_view(&start), list_key_table, &listing, &why);
    table_reader_release(&look);
    buffer_release(&start);
    return error_tell(error, listing.list.stopped ? HF_OK : status, &why);
}

/* ---- Transactions -------------------------------------------------------------------- */

/* False: the caller stops the list. */
static bool report_txn(const struct txn_record *record, hf_each_txn *each, void *argument)
{
    const char *keys[TXN_KEYS_MAX];
    size_t count = record->key_count < TXN_KEYS_MAX ? record->key_count : TXN_KEYS_MAX;
    for (size_t i = 0; i < count; i++)
        keys[i] = record->keys[i].name;
    struct hf_txn_info info = { .struct_size = sizeof info,
                                .id = record->id,
                                .state = (enum hf_txn_state)record->state,
                                .holder = record->holder,
                                .open = record->open,
                                .applied = record->applied,
                                .marked = record_is_mark(record),
                                .began_at_ms = record->began_at.us / 1000,
                                .decided_at_ms = record->decided_at.us / 1000,
                                .keys = keys,
                                .key_count = count };
    return each(argument, &info);
}

enum hf_status hf_txn_show(struct hf_client *client, const char *id, hf_each_txn *each,
                           void *argument, struct hf_error *error)
{
    struct txn_record record;
    if (ERROR_IF_NULL(error, client, id) != HF_OK)
        return HF_INVALID;
    enum hf_status status = txn_look(client, view_of(id), &record, error);
    if (status != HF_OK)
        return status;
    if (each)
        report_txn(&record, each, argument);
    record_release(&record);
    return error_clear(error);
}

struct txn_listing {
    struct listing list;
    enum hf_txn_state only; /* ABSENT: all states */
    hf_each_txn *each;
};

/* Skips a record that has been deleted since it was listed. */
static enum hf_status list_txn_record(struct txn_listing *listing, struct view key,
                                      struct hf_error *error)
{
    struct txn_record record;
    struct hf_error why;
    struct view id = view_from(key, strlen(LAYOUT_TXN_FOLDER));
    enum hf_status status =
        list_proceeds(&listing->list.options, listing->list.argument, error);
    if (status != HF_OK || !txn_id_valid(id))
        return status;
    status = txn_look(listing->list.client, id, &record, &why);
    if (is_damage(status))
        return list_damaged(&listing->list.options, listing->list.argument, key, &why, error);
    if (status == HF_NOT_FOUND)
        return HF_OK;
    if (status != HF_OK) {
        *error = why;
        return status;
    }
    bool shown = listing->only == HF_TXN_ABSENT || (int)record.state == (int)listing->only;
    listing->list.stopped =
        shown && !report_txn(&record, listing->each, listing->list.argument);
    record_release(&record);
    return listing->list.stopped ? HF_CANCELLED : HF_OK;
}

enum hf_status hf_txns_list(struct hf_client *client, enum hf_txn_state state,
                            const struct hf_list_options *options, hf_each_txn *each,
                            void *argument, struct hf_error *error)
{
    struct txn_listing listing = {
        .list = { .client = client, .options = HF_LIST_OPTIONS, .argument = argument },
        .only = state,
        .each = each
    };
    struct pages pages = { .list = { .prefix = VIEW(LAYOUT_TXN_FOLDER) } };
    struct hf_error why;
    if (ERROR_IF_NULL(&why, client) != HF_OK || error_if_none(&why, "each", each) != HF_OK ||
        READ_OPTIONS(HF_LIST_OPTIONS, options, &listing.list.options, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    if ((unsigned)state >= HF_TXN_STATE_COUNT)
        return error_set(error, HF_INVALID, "unknown transaction state");
    struct server_txn_list served = { client, state, each, argument };
    if (client_server(client))
        return error_tell(error, client_server(client)->list_txns(&served, &why), &why);
    enum hf_status status = HF_OK;
    const struct list_entry *entry;
    while (status == HF_OK && (entry = pages_next_entry(&pages, client_store(client))))
        status = list_txn_record(&listing, entry->key, &why);
    status = pages_end(&pages, status, &why);
    return error_tell(error, listing.list.stopped ? HF_OK : status, &why);
}
