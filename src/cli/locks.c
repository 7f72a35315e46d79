/* locks.c: `locks ls`, `locks show` and `locks break`. */
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "cli/lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- ls ------------------------------------------------------------------------------ */

struct listing {
    struct cli *cli;
    bool all;
    bool titled;
    enum hf_status status; /* of writing */
    struct grid grid;
};

static enum hf_status write_grid(struct listing *listing)
{
    struct cli *cli = listing->cli;
    bool titles = !cli->quiet && !listing->titled;
    bool failed = !grid_write(&listing->grid, &cli->out, titles);
    listing->titled = true;
    return failed ? error_no_memory(&cli->error) : output_flush(&cli->out, &cli->error);
}

static bool list_one(void *argument, const struct hf_lease_info *lease)
{
    struct listing *listing = argument;
    if (listing->cli->json) {
        output_json(&listing->cli->out, lease_as_json(lease, lease->place));
        return true;
    }
    grid_add_lease(&listing->grid, listing->all, lease);
    if (listing->grid.count == GRID_ROWS_MAX || listing->grid.failed)
        listing->status = write_grid(listing);
    return listing->status == HF_OK;
}

/* A damaged table is told, and the others are listed all the same. */
static void list_damaged(void *argument, const char *table, const struct hf_error *why)
{
    struct listing *listing = argument;
    struct cli *cli = listing->cli;
    cli_report(cli, view_of(table), why);
    cli->reported = true;
    if (cli->error.status == HF_OK)
        cli->error = *why;
}

bool not_interrupted(void *argument)
{
    (void)argument;
    return !interrupted();
}

static enum hf_status list_locks(struct listing *listing, struct hf_client *client)
{
    struct cli *cli = listing->cli;
    struct hf_list_options options = HF_LIST_OPTIONS;
    struct hf_error error;
    options.ended = options.waiting = listing->all;
    options.damaged = list_damaged;
    options.proceed = not_interrupted;
    enum hf_status status =
        hf_locks_list(client, cli->argument_count > 0 ? cli->arguments[0] : "", &options,
                      list_one, listing, &error);
    if (status == HF_CANCELLED)
        interrupt_check(&error);
    if (status != HF_OK) {
        cli->error = error;
        cli->reported = false;
        return status;
    }
    if (listing->status == HF_OK && listing->grid.count > 0)
        listing->status = write_grid(listing);
    return listing->status == HF_OK ? cli->error.status : listing->status;
}

enum hf_status run_locks_ls(struct cli *cli)
{
    struct hf_client *client = NULL;
    struct listing listing = { .cli = cli, .all = cli_given(cli, "all") };
    const char *const *titles;
    size_t columns = lease_columns(listing.all, &titles);
    enum hf_status status = lock_connect(cli, /* holder */ NULL, &client);
    if (status != HF_OK)
        return status;
    status = grid_init(&listing.grid, titles, columns) ? list_locks(&listing, client)
                                                       : error_no_memory(&cli->error);
    grid_release(&listing.grid);
    hf_client_close(client);
    return status;
}

/* ---- show ---------------------------------------------------------------------------- */

#define LABEL       "%-12s"
#define AUDIT_SHOWN 5
#define ENDED_SHOWN 3

struct showing {
    struct cli *cli;
    struct hf_table_info table;
    bool begun;
    size_t held, ended, queued;
    struct buffer last_ended[ENDED_SHOWN]; /* lines, each in turn */
    struct buffer queue;                   /* lines */
    json_t *held_list, *ended_list, *queue_list, *audit_list;
};

static void show_text(struct output *out, const char *label, const char *text)
{
    struct buffer escaped = BUFFER_INIT(8 * KEY_BYTES_MAX);
    escape_append(&escaped, view_of(text));
    output_print(out, LABEL "%.*s\n", label, VIEW_ARGS(buffer_view(&escaped)));
    buffer_release(&escaped);
}

/* "in 18s at the earliest, by store time". */
static void show_takeover(struct output *out, const struct hf_lease_info *lease)
{
    char span[SPAN_TEXT_MAX];
    bool watched = lease->takeover_by == HF_PROOF_WATCHED;
    if (lease->takeover_ms <= 0)
        output_print(out, LABEL "now: it is over, by %s\n", "  takeover",
                     watched ? "watching" : "store time");
    else
        output_print(out, LABEL "in %s at the earliest, by %s\n", "  takeover",
                     brief_text(SPAN_MS(lease->takeover_ms), span),
                     watched ? "watching it stand unchanged until then"
                             : hf_proof_name(lease->takeover_by));
}

static void show_times(struct output *out, const struct hf_lease_info *lease)
{
    char span[SPAN_TEXT_MAX], time[TIME_TEXT_MAX], ago[AGO_TEXT_MAX];
    output_print(out, LABEL "%s, since %s\n", "  held",
                 brief_text(SPAN_MS(lease->held_ms), span),
                 time_text((struct wall_time){ lease->acquired_at_ms * 1000 }, time));
    output_print(out, LABEL "%s, renewals %" PRIu64 "\n", "  ttl",
                 lease->ttl_ms > 0 ? brief_text(SPAN_MS(lease->ttl_ms), span) : "unknown",
                 lease->renewals);
    if (lease->remaining_ms > 0)
        output_print(out, LABEL "in %s unless renewed\n", "  expires",
                     brief_text(SPAN_MS(lease->remaining_ms), span));
    else
        output_print(out, LABEL "%s\n", "  expired",
                     ago_text(SPAN_MS(-lease->remaining_ms), ago));
}

static void show_lease(struct output *out, const struct hf_lease_info *lease)
{
    struct buffer text = BUFFER_INIT(4 * KEY_BYTES_MAX);
    if (lease->barrier) {
        append_barrier(&text, lease);
        const char *words = buffer_text(&text);
        show_text(out, "barrier", words ? words : "");
        buffer_clear(&text);
    } else {
        show_text(out, "holder", lease->holder);
    }
    append_scopes(&text, lease);
    const char *scopes = buffer_text(&text);
    show_text(out, "  scope", scopes ? scopes : "");
    show_text(out, "  lease", lease->lease);
    output_print(out, LABEL "%" PRIu64 "\n", "  token", lease->token);
    if (lease->mode == HF_SLOTS)
        output_print(out, LABEL "slots, one of %" PRIu64 "\n", "  mode", lease->slots);
    else
        output_print(out, LABEL "%s\n", "  mode", hf_mode_name(lease->mode));
    output_print(out, LABEL "%s\n", "  state", hf_lease_state_name(lease->state));
    show_times(out, lease);
    show_takeover(out, lease);
    if (lease->output[0])
        show_text(out, "  output", lease->output);
    if (lease->note[0])
        show_text(out, "  note", lease->note);
    buffer_release(&text);
}

/* Only the last few are shown, the latest first. */
static void note_ended(struct showing *showing, const struct hf_lease_info *lease)
{
    char time[TIME_TEXT_MAX];
    struct buffer *line = &showing->last_ended[showing->ended++ % ENDED_SHOWN];
    buffer_clear(line);
    buffer_print(line, "%s %s, token %" PRIu64 ", by ", hf_lease_state_name(lease->state),
                 time_text((struct wall_time){ lease->ends_at_ms * 1000 }, time), lease->token);
    escape_append(line, view_of(lease->holder));
}

static void note_queued(struct showing *showing, const struct hf_lease_info *lease)
{
    char label[32], span[SPAN_TEXT_MAX];
    struct buffer *lines = &showing->queue;
    snprintf(label, sizeof label, "  %zu", showing->queued);
    buffer_print(lines, LABEL, label);
    escape_append(lines, view_of(lease->holder));
    buffer_print(lines, ", %s, looks every %s%s\n", hf_mode_name(lease->mode),
                 brief_text(SPAN_MS(lease->poll_ms), span),
                 lease->turn ? "; it is its turn" : "");
}

static void begin_show(struct showing *showing)
{
    struct output *out = &showing->cli->out;
    if (showing->begun || showing->cli->json)
        return;
    showing->begun = true;
    show_text(out, "scope", showing->table.scope);
    show_text(out, "table", showing->table.table);
}

static bool show_one(void *argument, const struct hf_lease_info *lease)
{
    struct showing *showing = argument;
    bool json = showing->cli->json;
    begin_show(showing);
    if (lease->place > 0 && lease->relation != HF_RELATION_NONE) {
        showing->queued++;
        if (json)
            json_push(&showing->queue_list, lease_as_json(lease, showing->queued));
        else
            note_queued(showing, lease);
    } else if (lease_is_active(lease) && lease->relation != HF_RELATION_NONE) {
        showing->held++;
        if (json)
            json_push(&showing->held_list, lease_as_json(lease, /* place */ 0));
        else
            show_lease(&showing->cli->out, lease);
    } else if (lease->place == 0 && !lease_is_active(lease) &&
               lease->relation == HF_RELATION_OF_SCOPE) {
        if (json)
            json_push(&showing->ended_list, lease_as_json(lease, /* place */ 0));
        else
            note_ended(showing, lease);
    }
    return true;
}

static bool note_audit(void *argument, const char *json)
{
    struct showing *showing = argument;
    json_push(&showing->audit_list, json_loads(json, JSON_DECODE_ANY, NULL));
    return true;
}

static void show_settings(struct output *out, const struct hf_table_info *table)
{
    char ttl[SPAN_TEXT_MAX], margin[SPAN_TEXT_MAX], skew[SPAN_TEXT_MAX], late[SPAN_TEXT_MAX];
    if (table->adopted)
        output_print(out, LABEL "another program's; the next acquire gives it tokens\n",
                     "form");
    else
        output_print(out, LABEL "%" PRIu64 "\n", "next token", table->next_token);
    output_print(out,
                 LABEL "ttl at most %s, drift %" PRIu32 " ppm, margin %s, skew %s, late "
                       "bound %s, takeover %s\n",
                 "settings", span_text(SPAN_MS(table->ttl_max_ms), ttl), table->drift_ppm,
                 span_text(SPAN_MS(table->margin_ms), margin),
                 span_text(SPAN_MS(table->skew_tolerance_ms), skew),
                 span_text(SPAN_MS(table->late_bound_ms), late),
                 table->takeover_observed ? "only by watching"
                                          : "by store time or by watching");
}

static const char *member(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "?";
}

static void show_audit(struct output *out, const json_t *audit)
{
    size_t count = json_array_size(audit);
    size_t first = count > AUDIT_SHOWN ? count - AUDIT_SHOWN : 0;
    for (size_t i = first; i < count; i++) {
        const json_t *entry = json_array_get(audit, i);
        struct buffer text = BUFFER_INIT(8 * KEY_BYTES_MAX);
        buffer_print(&text, "%s %s by %s: %s (token %" PRId64 " of %s)", member(entry, "at"),
                     member(entry, "what"), member(entry, "by"), member(entry, "why"),
                     (int64_t)json_integer_value(json_object_get(entry, "token")),
                     member(entry, "holder_id"));
        const char *line = buffer_text(&text);
        show_text(out, i == first ? "audit" : "", line ? line : "");
        buffer_release(&text);
    }
}

/* What comes behind the leases that are held. */
static void show_rest(struct showing *showing)
{
    struct output *out = &showing->cli->out;
    begin_show(showing);
    if (showing->table.absent) { /* a lock that nobody ever asked for */
        output_print(out, LABEL "nobody; there was never any\n", "holder");
        return;
    }
    if (showing->held == 0)
        output_print(out, LABEL "nobody\n", "holder");
    for (size_t i = 0; i < ENDED_SHOWN && i < showing->ended; i++)
        output_print(out, LABEL "%.*s\n", i == 0 ? "before" : "",
                     VIEW_ARGS(buffer_view(
                         &showing->last_ended[(showing->ended - 1 - i) % ENDED_SHOWN])));
    if (showing->queued == 0)
        output_print(out, LABEL "nobody waits\n", "queue");
    else
        output_print(out, "queue\n%.*s", VIEW_ARGS(buffer_view(&showing->queue)));
    show_settings(out, &showing->table);
    show_audit(out, showing->audit_list);
}

/* ---- show, for programs -------------------------------------------------------------- */

static json_t *settings_as_json(const struct hf_table_info *table)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:s}", "drift_ppm",
                     (json_int_t)table->drift_ppm, "margin_ms", (json_int_t)table->margin_ms,
                     "skew_tolerance_ms", (json_int_t)table->skew_tolerance_ms, "ttl_max_ms",
                     (json_int_t)table->ttl_max_ms, "late_bound_ms",
                     (json_int_t)table->late_bound_ms, "takeover",
                     table->takeover_observed ? "observed" : "any");
}

static json_t *table_as_json(const struct showing *showing)
{
    const struct hf_table_info *table = &showing->table;
    json_t *object = json_object();
    json_add(&object, "scope", json_string(table->scope));
    json_add(&object, "table", json_string(table->table));
    if (!table->absent) {
        json_add_bool(&object, "adopted", table->adopted);
        json_add_count(&object, "next_token", table->next_token);
    }
    json_add(&object, "held", json_incref(showing->held_list));
    json_add(&object, "queue", json_incref(showing->queue_list));
    json_add(&object, "ended", json_incref(showing->ended_list));
    json_add(&object, "audit", json_incref(showing->audit_list));
    if (!table->absent)
        json_add(&object, "settings", settings_as_json(table));
    return object;
}

static void showing_init(struct showing *showing, struct cli *cli)
{
    *showing = (struct showing){ .cli = cli,
                                 .table = HF_TABLE_INFO,
                                 .queue = BUFFER_INIT(SIZE_MAX),
                                 .held_list = json_array(),
                                 .ended_list = json_array(),
                                 .queue_list = json_array(),
                                 .audit_list = json_array() };
    for (size_t i = 0; i < ENDED_SHOWN; i++)
        showing->last_ended[i] = BUFFER_INIT(8 * KEY_BYTES_MAX);
}

static void showing_release(struct showing *showing)
{
    for (size_t i = 0; i < ENDED_SHOWN; i++)
        buffer_release(&showing->last_ended[i]);
    buffer_release(&showing->queue);
    json_decref(showing->held_list);
    json_decref(showing->ended_list);
    json_decref(showing->queue_list);
    json_decref(showing->audit_list);
}

enum hf_status run_locks_show(struct cli *cli)
{
    struct hf_client *client = NULL;
    struct showing showing;
    enum hf_status status = lock_connect(cli, /* holder */ NULL, &client);
    if (status != HF_OK)
        return status;
    showing_init(&showing, cli);
    status = hf_locks_show(client, cli->arguments[0], &showing.table, show_one, note_audit,
                           &showing, &cli->error);
    if (status == HF_OK && cli->json)
        output_json(&cli->out, table_as_json(&showing));
    else if (status == HF_OK)
        show_rest(&showing);
    showing_release(&showing);
    hf_client_close(client);
    return status;
}

/* ---- break --------------------------------------------------------------------------- */

struct breaking {
    struct cli *cli;
    struct hf_table_info table;
    const struct option_value *token; /* NULL: whichever has the scope */
    size_t matching;
    struct buffer text; /* the lease to break, and for people */
    struct buffer words;
    struct buffer other; /* the scopes of one that is in the way, if none is chosen */
    uint64_t other_token;
    json_t *object;
};

static void note_lease(struct breaking *breaking, const struct hf_lease_info *lease)
{
    if (breaking->matching++ > 0)
        return;
    buffer_append(&breaking->text, view_of(lease->lease));
    append_scopes(&breaking->words, lease);
    buffer_append(&breaking->words, VIEW(" held by "));
    escape_append(&breaking->words, view_of(lease->holder));
    buffer_print(&breaking->words, ", token %" PRIu64, lease->token);
    breaking->object = lease_as_json(lease, /* place */ 0);
}

static bool choose(void *argument, const struct hf_lease_info *lease)
{
    struct breaking *breaking = argument;
    if (!lease_is_active(lease))
        return true;
    bool chosen = breaking->token ? lease->token == breaking->token->number
                                  : lease->relation == HF_RELATION_OF_SCOPE;
    if (chosen) {
        note_lease(breaking, lease);
    } else if (lease->relation != HF_RELATION_NONE) {
        buffer_clear(&breaking->other);
        append_scopes(&breaking->other, lease);
        breaking->other_token = lease->token;
    }
    return true;
}

/* OK when one lease was chosen. */
static enum hf_status check_choice(const struct breaking *breaking, struct hf_error *error)
{
    if (breaking->table.absent)
        return error_set(error, HF_NOT_FOUND,
                         "there is no such lock in this store; 'holdfast locks ls' lists the "
                         "locks");
    if (breaking->matching == 1)
        return HF_OK;
    if (breaking->matching > 1)
        return error_set(error, HF_INVALID,
                         "%zu leases hold it: name one with --token ('locks show' lists them)",
                         breaking->matching);
    if (breaking->token)
        return error_set(error, HF_NOT_FOUND, "no lease of token %" PRIu64 " is active in %s",
                         breaking->token->number, breaking->table.table);
    if (breaking->other.size == 0)
        return error_set(error, HF_NOT_FOUND, "nobody holds it");
    return error_set(error, HF_NOT_FOUND,
                     "no lease of exactly %.80s; %.*s is in its way: name it with --token "
                     "%" PRIu64,
                     breaking->table.scope,
                     VIEW_ARGS(view_first(buffer_view(&breaking->other), 80)),
                     breaking->other_token);
}

static enum hf_status break_chosen(struct breaking *breaking, struct hf_client *client,
                                   const char *reason)
{
    struct cli *cli = breaking->cli;
    char by[USER_TEXT_MAX];
    const char *text = buffer_text(&breaking->text);
    enum hf_status status = text ? hf_break(client, text, user_text(by), reason, &cli->error)
                                 : error_no_memory(&cli->error);
    if (status != HF_OK)
        return status;
    if (cli->json) {
        output_json(&cli->out, breaking->object);
        breaking->object = NULL;
    } else if (!cli->quiet) {
        output_print(&cli->out, "broken: %.*s\n", VIEW_ARGS(buffer_view(&breaking->words)));
    }
    return HF_OK;
}

enum hf_status run_locks_break(struct cli *cli)
{
    struct hf_client *client = NULL;
    struct breaking breaking = { .cli = cli,
                                 .table = HF_TABLE_INFO,
                                 .token = cli_option(cli, "token"),
                                 .text = BUFFER_INIT(HF_LEASE_TEXT_MAX),
                                 .words = BUFFER_INIT(16 * KEY_BYTES_MAX),
                                 .other = BUFFER_INIT(4 * KEY_BYTES_MAX) };
    const char *reason = option_text(cli, "reason");
    if (!reason || !reason[0])
        return error_set(&cli->error, HF_INVALID,
                         "--reason is missing: say why, for those who look later");
    enum hf_status status = lock_connect(cli, /* holder */ NULL, &client);
    if (status == HF_OK)
        status = hf_locks_show(client, cli->arguments[0], &breaking.table, choose,
                               /* audit */ NULL, &breaking, &cli->error);
    if (status == HF_OK)
        status = check_choice(&breaking, &cli->error);
    if (status == HF_OK)
        status = break_chosen(&breaking, client, reason);
    json_decref(breaking.object);
    buffer_release(&breaking.text);
    buffer_release(&breaking.words);
    buffer_release(&breaking.other);
    hf_client_close(client);
    return status;
}
