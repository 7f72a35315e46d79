/* SPDX-License-Identifier: Apache-2.0 */
/* list.c: lists the leases, waiters and keys that a server knows, page by page. A server never
 * lists the id of a lease, so a lease that was listed can be broken, and not used. */
#include "client/client.h"
#include "client/wire.h"

#include "base/arena.h"
#include "base/owner.h"
#include "key/key.h"
#include "lock/lease_name.h"

#include <stdio.h>

#define PAGE_BYTES_MAX (8 * MIB)
#define PAGES_MAX      1000

#define LISTED_SCOPES_MAX 64
#define PATH_MAX_BYTES    ((size_t)SERVER_PATH_MAX)

/* ---- Leases ---------------------------------------------------------------------------------- */

/* One row of a page. */
struct listed_lease {
    char scope[HF_SCOPE_TEXT_MAX], state[16], mode[16];
    char owner[HF_HOLDER_MAX + 1], note[NOTE_BYTES_MAX + 1], label[NONCE_SIZE + 1];
    uint64_t token, place, waiters, slots, renewals;
    int64_t ttl_ms, remaining_ms, held_ms, ended_at_ms;
    struct view scopes; /* the JSON of an array, if it has several; `scope` is the first */
};

static const struct wire_field row_fields[] = {
#define FIELD(name, type, member) WIRE_FIELD(struct listed_lease, name, type, member)
    FIELD("scope", WIRE_TEXT, scope),
    FIELD("scopes", WIRE_RAW, scopes),
    FIELD("state", WIRE_TEXT, state),
    FIELD("mode", WIRE_TEXT, mode),
    FIELD("label", WIRE_WORDS, label),
    /* The server is the holder of its leases; whoever asked for one is its owner. */
    FIELD("owner", WIRE_WORDS, owner),
    FIELD("note", WIRE_WORDS, note),
    FIELD("fencing_token", WIRE_U64, token),
    FIELD("place", WIRE_U64, place),
    FIELD("waiters", WIRE_U64, waiters),
    FIELD("slots", WIRE_U64, slots),
    FIELD("renewals", WIRE_U64, renewals),
    FIELD("ttl_ms", WIRE_I64, ttl_ms),
    FIELD("remaining_ms", WIRE_I64, remaining_ms),
    FIELD("held_ms", WIRE_I64, held_ms),
    FIELD("ended_at_ms", WIRE_I64, ended_at_ms),
#undef FIELD
};

static enum hf_lease_state state_of_name(const char *name)
{
    for (unsigned state = 0; state < HF_LEASE_STATE_COUNT; state++)
        if (strcmp(name, hf_lease_state_name((enum hf_lease_state)state)) == 0)
            return (enum hf_lease_state)state;
    return HF_LEASE_ACTIVE;
}

/* The key that stands for the lock's table; empty if no client of a server can have this lock. */
static void name_table(struct hf_client *client, const struct listed_lease *row,
                       char ret_key[KEY_BYTES_MAX + 1])
{
    struct scope scope;
    bool exclusive = wire_mode(row->mode) == HF_EXCLUSIVE;
    if (scope_parse(view_of(row->scope), &scope, NULL) != HF_OK ||
        table_key_at_server(client_space(client), &scope, exclusive, ret_key, NULL) != HF_OK)
        ret_key[0] = '\0';
}

/* The client's own note, in the one that the server has written (serve/api/owner.c); cuts it. */
static const char *own_note(char *note)
{
    struct json_reader reader = json_read(view_of(note));
    struct view name, value, own = VIEW(""), owner;
    if (!owner_find(note, &owner))
        return note;
    json_enter_object(&reader);
    while (json_next_member(&reader, &name) && json_skip(&reader, &value))
        if (view_equal(name, VIEW("note")))
            own = value;
    memmove(note, own.data, own.size);
    note[own.size] = '\0';
    return note;
}

/* The scopes of a lock of several; further ones are not shown. */
static size_t take_listed_scopes(struct view json, struct arena *arena,
                                 const char *scopes[LISTED_SCOPES_MAX])
{
    static const struct wire_field field = { "scopes", WIRE_WORDS, 0, HF_SCOPE_TEXT_MAX };
    struct json_reader reader = json_read(json);
    char text[HF_SCOPE_TEXT_MAX];
    size_t count = 0;
    json_enter_array(&reader);
    while (count < LISTED_SCOPES_MAX && json_next_element(&reader) &&
           wire_take_text(&reader, &field, text)) {
        scopes[count] = arena_copy(arena, view_of(text)).data;
        if (!scopes[count])
            break;
        count++;
    }
    return count;
}

/* False if the caller stops the list. */
static bool report_row(struct server_list *list, struct listed_lease *row)
{
    char table[KEY_BYTES_MAX + 1], lease[HF_LEASE_TEXT_MAX] = "";
    const char *scopes[LISTED_SCOPES_MAX] = { row->scope };
    struct arena arena = ARENA_INIT;
    size_t count = row->scope[0] ? 1 : 0;
    if (row->scopes.size > 0)
        count = take_listed_scopes(row->scopes, &arena, scopes);
    name_table(list->client, row, table);
    struct hf_lease_info info = { .struct_size = sizeof info,
                                  .state = state_of_name(row->state),
                                  .table = table,
                                  .id = row->label,
                                  .lease = lease,
                                  .holder = row->owner,
                                  .scopes = scopes,
                                  .scope_count = count,
                                  .mode = wire_mode(row->mode),
                                  .slots = row->slots,
                                  .ttl_ms = row->ttl_ms,
                                  .output = "",
                                  .note = own_note(row->note),
                                  .place = row->place };
    if (row->ended_at_ms > 0) {
        info.token = row->token;
        info.held_ms = row->held_ms;
        info.renewals = row->renewals;
        info.acquired_at_ms = row->ended_at_ms - row->held_ms;
        info.ends_at_ms = row->ended_at_ms;
    } else if (row->place == 0) {
        int64_t now_ms = env_wall(client_env(list->client)).us / 1000;
        info.token = row->token;
        info.remaining_ms = info.takeover_ms = row->remaining_ms;
        info.held_ms = row->held_ms;
        info.waiters = row->waiters;
        info.renewals = row->renewals;
        info.acquired_at_ms = now_ms - row->held_ms;
        info.ends_at_ms = now_ms + row->remaining_ms;
        struct buffer text = { .data = lease,
                               .capacity = sizeof lease,
                               .max = sizeof lease - 1 };
        if (table[0] && row->token > 0)
            lease_name_append(&text,
                              &(struct lease_name){ row->token, VIEW("-"), view_of(table) });
        buffer_text(&text);
    }
    bool goes_on = list->each(list->argument, &info);
    arena_release(&arena);
    return goes_on;
}

/* False if the caller stops the list. */
static bool take_lease_row(void *argument, struct json_reader *reader)
{
    struct server_list *list = argument;
    struct listed_lease row = { .token = 0 };
    if (wire_take(reader, row_fields, sizeof row_fields / sizeof row_fields[0], &row))
        list->stopped = !report_row(list, &row);
    return !list->stopped;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

struct listed_key {
    char name[NAME_BYTES_MAX + 1], etag[HF_KEY_ETAG_SIZE + 1], owner[HF_HOLDER_MAX + 1];
    uint64_t version, size, state_token, token, waiters;
    int64_t updated_s, remaining_ms;
    bool removed, held, staged, damaged;
};

static const struct wire_field key_fields[] = {
#define FIELD(name, type, member) WIRE_FIELD(struct listed_key, name, type, member)
    FIELD("key", WIRE_TEXT, name),
    FIELD("state_etag", WIRE_TEXT, etag),
    FIELD("owner", WIRE_WORDS, owner),
    FIELD("version", WIRE_U64, version),
    FIELD("bytes", WIRE_U64, size),
    FIELD("state_fencing_token", WIRE_U64, state_token),
    FIELD("fencing_token", WIRE_U64, token),
    FIELD("waiters", WIRE_U64, waiters),
    FIELD("updated_at_unix", WIRE_I64, updated_s),
    FIELD("remaining_ms", WIRE_I64, remaining_ms),
    FIELD("state_removed", WIRE_FLAG, removed),
    FIELD("held", WIRE_FLAG, held),
    FIELD("staged", WIRE_FLAG, staged),
    FIELD("damaged", WIRE_FLAG, damaged),
#undef FIELD
};

static bool take_key_row(void *argument, struct json_reader *reader)
{
    struct server_key_list *list = argument;
    struct listed_key row = { .version = 0 };
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_key_status status = HF_KEY_STATUS;
    if (!wire_take(reader, key_fields, sizeof key_fields / sizeof key_fields[0], &row))
        return true;
    struct state_version version = { .number = row.version,
                                     .size = row.size,
                                     .token = row.state_token,
                                     .at = { row.updated_s * 1000000 },
                                     .removed = row.removed };
    memcpy(version.etag, row.etag, sizeof version.etag);
    key_info_fill(NULL, &version, HF_KEY_NONE, &info);
    status.damaged = row.damaged;
    status.staged = row.staged;
    status.held = row.held;
    status.token = row.token;
    status.remaining_ms = row.remaining_ms;
    status.waiters = row.waiters;
    memcpy(status.holder, row.owner, sizeof status.holder);
    return list->each(list->argument, row.name, &info, &status);
}

/* ---- Pages ----------------------------------------------------------------------------------- */

/* A list that a server sends in pages, as an array of rows. */
struct paged_list {
    struct hf_client *client;
    const char *path, *array;
    struct view prefix;
    bool ended;
    bool (*take)(void *argument, struct json_reader *reader); /* false: stop */
    void *argument;
    bool stopped;
};

/* Reads a page; *ret_next becomes the place where the next one begins, or empty. */
static enum hf_status read_page(struct paged_list *list, struct view json,
                                char ret_next[HF_SCOPE_TEXT_MAX], struct hf_error *error)
{
    struct json_reader reader = json_read(json);
    static const struct wire_field next[] = { { "next", WIRE_TEXT, 0, HF_SCOPE_TEXT_MAX } };
    struct view name, ignored;
    ret_next[0] = '\0';
    json_enter_object(&reader);
    while (!list->stopped && json_next_member(&reader, &name)) {
        if (!view_equal(name, view_of(list->array))) {
            if (view_equal(name, VIEW("next")))
                wire_take_text(&reader, next, ret_next);
            else
                json_skip(&reader, &ignored);
            continue;
        }
        json_enter_array(&reader);
        while (!list->stopped && json_next_element(&reader))
            list->stopped = !list->take(list->argument, &reader);
    }
    return list->stopped || json_end(&reader) ? HF_OK : wire_invalid(reader.why, error);
}

static enum hf_status read_pages(struct paged_list *list, struct hf_error *error)
{
    char next[HF_SCOPE_TEXT_MAX] = "";
    for (int pages = 0; pages < PAGES_MAX; pages++) {
        struct buffer path = BUFFER_INIT(PATH_MAX_BYTES);
        struct http_reply reply;
        struct wire_answer answer;
        buffer_append(&path, view_of(list->path));
        wire_parameter(&path, "namespace", view_of(client_ns(list->client)));
        wire_parameter(&path, "limit", VIEW("1000"));
        if (list->prefix.size > 0)
            wire_parameter(&path, "prefix", list->prefix);
        if (list->ended)
            wire_parameter(&path, "ended", VIEW("1"));
        if (next[0])
            wire_parameter(&path, "after", view_of(next));
        if (!buffer_text(&path)) {
            buffer_release(&path);
            return error_set(error, HF_INVALID, "the names are too long");
        }
        enum hf_status status =
            wire_get(list->client, &path, /* header */ NULL, PAGE_BYTES_MAX, &reply, &answer);
        *error = answer.error;
        if (status == HF_OK)
            status = read_page(list, buffer_view(&reply.body), next, error);
        http_reply_release(&reply);
        buffer_release(&path);
        if (status != HF_OK || list->stopped || !next[0])
            return status;
    }
    return error_set(error, HF_UNAVAILABLE, "the server lists more pages than there can be");
}

enum hf_status lease_list(struct server_list *list, struct hf_error *error)
{
    struct paged_list pages = { .client = list->client,
                                .path = "/v1/locks",
                                .array = "locks",
                                .prefix = list->start,
                                .ended = list->ended,
                                .take = take_lease_row,
                                .argument = list };
    return read_pages(&pages, error);
}

enum hf_status key_list(struct server_key_list *list, struct hf_error *error)
{
    struct paged_list pages = { .client = list->client,
                                .path = "/v1/keys",
                                .array = "keys",
                                .prefix = list->prefix,
                                .take = take_key_row,
                                .argument = list };
    return read_pages(&pages, error);
}
