/* SPDX-License-Identifier: Apache-2.0 */
/* locks.c: `locks ls`, `locks show` and `locks break`: list leases, show one table in detail, and
 * break another holder's lease. */
#include "cli/interrupt.h"
#include "cli/lock/lock.h"

#include <inttypes.h>

/* ---- ls ------------------------------------------------------------------------------ */

bool not_interrupted(void *argument)
{
    (void)argument;
    return !interrupted();
}

static bool print_listed_lease(void *argument, const struct hf_lease_info *lease)
{
    return listing_add_record(argument, lease_record, lease);
}

enum hf_status run_locks_ls(struct cli *cli)
{
    struct listing listing;
    struct hf_list_options options = HF_LIST_OPTIONS;
    struct hf_error error;
    bool all = cli_given(cli, "all");
    options.ended = options.waiting = all;
    options.damaged = listing_damaged;
    options.proceed = not_interrupted;
    enum hf_status status =
        listing_begin(&listing, cli, all ? LEASE_TITLES : strchr(LEASE_TITLES, '\t') + 1,
                      all ? lease_row : strchr(lease_row, '\t') + 1);
    if (status != HF_OK)
        return status;
    const char *prefix = cli->argument_count > 0 ? cli->arguments[0] : "";
    status = hf_locks_list(cli->client, prefix, &options, print_listed_lease, &listing, &error);
    return listing_end(&listing, status, &error);
}

/* ---- show ---------------------------------------------------------------------------- */

#define LABEL       "%-12s"
#define AUDIT_SHOWN 5
#define ENDED_SHOWN 3

struct showing {
    struct cli *cli;
    struct hf_table_info table;
    struct record_list held, queue, ended, audit;
    struct record_list before, acts;  /* for people: the last few of `ended` and `audit` */
    struct buffer lines[ENDED_SHOWN]; /* a ring of the last leases that ended */
};

static const char *takeover_name(unsigned observed)
{
    return observed ? "observed" : "any";
}

static const struct field table_settings_record[] = TABLE_SETTINGS_RECORD;
const struct field table_record[] = TABLE_RECORD;

/* The lines for the last few leases that ended are kept for display. */
static bool sort_lease(void *argument, const struct hf_lease_info *lease)
{
    struct showing *showing = argument;
    struct cli *cli = showing->cli;
    struct hf_lease_info numbered = *lease;
    bool active = lease_is_active(lease), related = lease->relation != HF_RELATION_NONE;
    if (lease->place > 0 && related) {
        numbered.place = showing->queue.count + 1;
        record_list_add(cli, &showing->queue, lease_record, &numbered, QUEUED_LEASE_TEXT);
    } else if (active && related) {
        record_list_add(cli, &showing->held, lease_record, lease, HELD_LEASE_TEXT);
    } else if (lease->place == 0 && !active && lease->relation == HF_RELATION_OF_SCOPE) {
        struct buffer *line = &showing->lines[showing->ended.count % ENDED_SHOWN];
        buffer_clear(line);
        record_append(line, /* raw */ false, lease_record, lease,
                      "{state} {ended_at}, token {token}, by {holder}\n");
        record_list_add(cli, &showing->ended, lease_record, lease, "");
    }
    return true;
}

/* For people, the members of an entry are needed; one that cannot be decoded has none. */
static bool add_audit(void *argument, const char *json)
{
    struct showing *showing = argument;
    json_t *entry =
        showing->cli->json ? json_raw(view_of(json)) : json_loads(json, JSON_ALLOW_NUL, NULL);
    record_list_push(&showing->audit, entry || showing->cli->json ? entry : json_null());
    return true;
}

static const char *member(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "?";
}

/* Selects the last few leases that ended, latest first, and the last few audit entries. */
static void choose_lines(struct showing *showing)
{
    size_t ended = showing->ended.count, acts = showing->audit.count;
    size_t first = acts > AUDIT_SHOWN ? acts - AUDIT_SHOWN : 0;
    for (size_t i = 0; i < (ended < ENDED_SHOWN ? ended : ENDED_SHOWN); i++) {
        struct buffer *to = record_list_line(&showing->before);
        buffer_print(to, LABEL, i == 0 ? "before" : "");
        buffer_append(to, buffer_view(&showing->lines[(ended - 1 - i) % ENDED_SHOWN]));
    }
    for (size_t i = first; i < acts; i++) {
        struct buffer *to = record_list_line(&showing->acts);
        struct buffer text = BUFFER_INIT(8 * KEY_BYTES_MAX);
        const json_t *act = json_array_get(showing->audit.items, i);
        buffer_print(&text, "%s %s by %s: %s (token %" PRId64 " of %s)", member(act, "at"),
                     member(act, "what"), member(act, "by"), member(act, "why"),
                     (int64_t)json_integer_value(json_object_get(act, "token")),
                     member(act, "holder_id"));
        buffer_print(to, LABEL, i == first ? "audit" : "");
        escape_append(to, buffer_view(&text));
        buffer_append_byte(to, '\n');
        buffer_release(&text);
    }
}

enum hf_status run_locks_show(struct cli *cli)
{
    struct showing showing = { .cli = cli, .table = HF_TABLE_INFO };
    struct record_list *lists[] = { &showing.held,  &showing.queue,  &showing.ended,
                                    &showing.audit, &showing.before, &showing.acts };
    for (size_t i = 0; i < ENDED_SHOWN; i++)
        showing.lines[i] = BUFFER_INIT(8 * KEY_BYTES_MAX);
    enum hf_status status = hf_locks_show(cli->client, cli->arguments[0], &showing.table,
                                          sort_lease, add_audit, &showing, &cli->error);
    if (status == HF_OK) {
        choose_lines(&showing);
        record_show(cli, table_record, &showing, TABLE_TEXT);
    }
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        record_list_release(lists[i]);
    for (size_t i = 0; i < ENDED_SHOWN; i++)
        buffer_release(&showing.lines[i]);
    return status;
}

/* ---- break --------------------------------------------------------------------------- */

struct breaking {
    struct cli *cli;
    struct hf_table_info table;
    const struct option_value *token; /* NULL: choose the lease on the scope */
    size_t matching;
    struct buffer text;      /* the lease to break, ... */
    struct record_list told; /* ... and its output */
    struct buffer other;     /* the scopes of a conflicting lease that was not chosen */
    uint64_t other_token;
};

static bool choose_lease(void *argument, const struct hf_lease_info *lease)
{
    struct breaking *breaking = argument;
    if (!lease_is_active(lease))
        return true;
    bool chosen = breaking->token ? lease->token == breaking->token->number
                                  : lease->relation == HF_RELATION_OF_SCOPE;
    if (chosen && breaking->matching++ == 0) {
        buffer_append(&breaking->text, view_of(lease->lease));
        record_list_add(breaking->cli, &breaking->told, lease_record, lease,
                        "broken: {scope} held by {holder}, token {token}\n");
    } else if (!chosen && lease->relation != HF_RELATION_NONE) {
        buffer_clear(&breaking->other);
        append_scopes(&breaking->other, lease);
        breaking->other_token = lease->token;
    }
    return true;
}

/* OK if exactly one lease was chosen. */
static enum hf_status check_choice(const struct breaking *breaking, struct hf_error *error)
{
    if (breaking->table.absent)
        return error_set(error, HF_NOT_FOUND,
                         "no such lock in this store; 'holdfast locks ls' lists the locks");
    if (breaking->matching == 1)
        return HF_OK;
    if (breaking->matching > 1)
        return error_set(
            error, HF_INVALID,
            "%zu leases hold this scope; choose one with --token ('holdfast locks show' "
            "lists them)",
            breaking->matching);
    if (breaking->token)
        return error_set(error, HF_NOT_FOUND, "no lease with token %" PRIu64 " is active in %s",
                         breaking->token->number, breaking->table.table);
    if (breaking->other.size == 0)
        return error_set(error, HF_NOT_FOUND, "nobody holds the lock");
    return error_set(error, HF_NOT_FOUND,
                     "no lease is on exactly %.80s, but one on %.*s conflicts with it; to "
                     "break that one, use --token %" PRIu64,
                     breaking->table.scope,
                     VIEW_ARGS(view_first(buffer_view(&breaking->other), 80)),
                     breaking->other_token);
}

enum hf_status run_locks_break(struct cli *cli)
{
    struct breaking breaking = { .cli = cli,
                                 .table = HF_TABLE_INFO,
                                 .token = cli_option(cli, "token"),
                                 .text = BUFFER_INIT(HF_LEASE_TEXT_MAX),
                                 .other = BUFFER_INIT(4 * KEY_BYTES_MAX) };
    const char *reason = option_text(cli, "reason");
    char by[USER_TEXT_MAX];
    if (!reason || !reason[0])
        return cli_invalid(
            cli, "--reason is empty; give the reason, which is kept in the audit log");
    enum hf_status status = cli_connect(cli);
    if (status == HF_OK)
        status = hf_locks_show(cli->client, cli->arguments[0], &breaking.table, choose_lease,
                               /* audit */ NULL, &breaking, &cli->error);
    if (status == HF_OK)
        status = check_choice(&breaking, &cli->error);
    const char *text = buffer_text(&breaking.text);
    if (status == HF_OK)
        status = text ? hf_break(cli->client, text, user_text(by), reason, &cli->error)
                      : error_no_memory(&cli->error);
    if (status == HF_OK && cli->json)
        output_json(&cli->out, json_incref(json_array_get(breaking.told.items, 0)));
    else if (status == HF_OK && !cli->quiet)
        output_bytes(&cli->out, buffer_view(&breaking.told.lines));
    record_list_release(&breaking.told);
    buffer_release(&breaking.text);
    buffer_release(&breaking.other);
    return status;
}
