/* locks.c: `locks ls`, `locks show` and `locks break`. */
#include "cli/interrupt.h"
#include "cli/lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- ls ------------------------------------------------------------------------------ */

struct listing {
    struct cli *cli;
    struct view start;
    bool all;
    bool titled;
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

static enum hf_status list_one(struct listing *listing, const struct sight *sight,
                               const struct lease *lease, size_t place)
{
    if (listing->cli->json) {
        output_json(&listing->cli->out, lease_as_json(sight, lease, place));
        return HF_OK;
    }
    grid_add_lease(&listing->grid, listing->all, sight, lease, place);
    return listing->grid.count == GRID_ROWS_MAX || listing->grid.failed ? write_grid(listing)
                                                                        : HF_OK;
}

/* A damaged table is told, and the others are listed all the same. */
static void list_damaged(struct listing *listing, const struct sight *sight)
{
    struct cli *cli = listing->cli;
    cli_report(cli, sight->key, &sight->error);
    cli->reported = true;
    if (cli->error.status == HF_OK)
        cli->error = sight->error;
}

static enum hf_status list_table(void *argument, const struct sight *sight,
                                 struct hf_error *error)
{
    struct listing *listing = argument;
    const struct lease_table *table = sight->table;
    enum hf_status status = interrupt_check(error);
    if (!table) {
        list_damaged(listing, sight);
        return status;
    }
    for (size_t i = 0; i < table->lease_count && status == HF_OK; i++)
        if ((listing->all || table->leases[i]->status == LEASE_ACTIVE) &&
            look_matches(table->leases[i], listing->start))
            status = list_one(listing, sight, table->leases[i], /* place */ 0);
    for (size_t i = 0; listing->all && i < table->waiter_count && status == HF_OK; i++)
        if (look_matches(table->waiters[i].wanted, listing->start))
            status = list_one(listing, sight, table->waiters[i].wanted, i + 1);
    return status;
}

enum hf_status run_locks_ls(struct cli *cli)
{
    struct hf_client *client = NULL;
    struct look look;
    struct listing listing = { .cli = cli, .all = cli_given(cli, "all") };
    const char *const *titles;
    size_t columns = lease_columns(listing.all, &titles);
    listing.start = cli->argument_count > 0 ? cli_argument(cli, 0) : VIEW("");
    enum hf_status status = lock_connect(cli, /* holder */ NULL, &client);
    if (status != HF_OK)
        return status;
    if (!grid_init(&listing.grid, titles, columns))
        status = error_no_memory(&cli->error);
    struct hf_error error = { .status = HF_OK };
    look_init(&look, client);
    if (status == HF_OK)
        status = look_around(&look, listing.start, list_table, &listing, &error);
    if (status != HF_OK && error.status == status) {
        cli->error = error;
        cli->reported = false;
    }
    if (status == HF_OK && listing.grid.count > 0)
        status = write_grid(&listing);
    look_release(&look);
    grid_release(&listing.grid);
    hf_client_close(client);
    return status == HF_OK ? cli->error.status : status;
}

/* ---- What is about one scope --------------------------------------------------------- */

/* A scope, and whether a lease or a wish has to do with it. */
struct subject {
    struct scope scope;
    char text[SCOPE_TEXT_MAX + 1];
    char key[KEY_BYTES_MAX + 1]; /* of its table */
};

static enum hf_status parse_subject(struct cli *cli, struct hf_client *client,
                                    struct subject *ret_subject)
{
    enum hf_status status = scope_parse(cli_argument(cli, 0), &ret_subject->scope, &cli->error);
    if (status != HF_OK)
        return status;
    scope_text(&ret_subject->scope, ret_subject->text);
    return table_key(&client->space, &ret_subject->scope, ret_subject->key, &cli->error);
}

static bool has_scope(const struct subject *subject, const struct lease *lease)
{
    for (size_t i = 0; i < lease->scope_count; i++)
        if (scope_equal(&lease->scopes[i], &subject->scope))
            return true;
    return false;
}

static bool concerns(const struct subject *subject, const struct lease *lease)
{
    struct scope scope = subject->scope;
    struct lease alone = { .scopes = &scope, .scope_count = 1 };
    return has_scope(subject, lease) || leases_conflict(lease, &alone);
}

/* ---- show ---------------------------------------------------------------------------- */

struct showing {
    struct cli *cli;
    struct subject subject;
};

#define LABEL       "%-12s"
#define AUDIT_SHOWN 5
#define ENDED_SHOWN 3

static void show_text(struct output *out, const char *label, struct view text)
{
    struct buffer escaped = BUFFER_INIT(8 * KEY_BYTES_MAX);
    escape_append(&escaped, text);
    output_print(out, LABEL "%.*s\n", label, VIEW_ARGS(buffer_view(&escaped)));
    buffer_release(&escaped);
}

/* "in 18s at the earliest, by store time". */
static void show_takeover(struct output *out, const struct sight *sight,
                          const struct lease *lease)
{
    char span[SPAN_TEXT_MAX];
    enum lease_proof proof;
    struct mono_time at = lease_provable_at(&sight->settings, lease, &sight->evidence, &proof);
    struct span left = mono_since(at, sight->evidence.now);
    if (left.us <= 0)
        output_print(out, LABEL "now: it is over, by %s\n", "  takeover",
                     proof == PROOF_WATCHED ? "watching" : "store time");
    else
        output_print(out, LABEL "in %s at the earliest, by %s\n", "  takeover",
                     brief_text(left, span),
                     proof == PROOF_WATCHED ? "watching it stand unchanged until then"
                                            : lease_proof_name(proof));
}

static void show_times(struct output *out, const struct sight *sight, const struct lease *lease)
{
    char span[SPAN_TEXT_MAX], time[TIME_TEXT_MAX], ago[AGO_TEXT_MAX];
    struct span left = lease_left(lease, &sight->evidence);
    output_print(out, LABEL "%s, since %s\n", "  held",
                 brief_text(lease_held(lease, &sight->evidence), span),
                 time_text(lease->acquired_at, time));
    output_print(out, LABEL "%s, renewals %" PRIu64 "\n", "  ttl",
                 lease->ttl.us > 0 ? brief_text(lease->ttl, span) : "unknown", lease->renewals);
    if (left.us > 0)
        output_print(out, LABEL "in %s unless renewed\n", "  expires", brief_text(left, span));
    else
        output_print(out, LABEL "%s\n", "  expired", ago_text(SPAN_US(-left.us), ago));
}

static void show_lease(struct output *out, const struct sight *sight, const struct lease *lease)
{
    struct buffer text = BUFFER_INIT(4 * KEY_BYTES_MAX);
    if (lease_is_barrier(lease)) {
        append_barrier(&text, &sight->settings, &sight->evidence, lease);
        show_text(out, "barrier", buffer_view(&text));
        buffer_clear(&text);
    } else {
        show_text(out, "holder", lease->holder);
    }
    append_scopes(&text, sight, lease);
    show_text(out, "  scope", buffer_view(&text));
    buffer_clear(&text);
    append_lease_text(&text, sight, lease);
    show_text(out, "  lease", buffer_view(&text));
    output_print(out, LABEL "%" PRIu64 "\n", "  token", lease->token);
    if (lease->mode == LEASE_SLOTS)
        output_print(out, LABEL "slots, one of %" PRIu64 "\n", "  mode", lease->slots);
    else
        output_print(out, LABEL "%s\n", "  mode", lease_mode_name(lease->mode));
    output_print(out, LABEL "%s\n", "  state",
                 lease_state(&sight->settings, lease, &sight->evidence));
    show_times(out, sight, lease);
    show_takeover(out, sight, lease);
    if (lease->output.size > 0)
        show_text(out, "  output", lease->output);
    if (lease->note.size > 0)
        show_text(out, "  note", lease->note);
    buffer_release(&text);
}

static void show_leases(const struct showing *showing, const struct sight *sight)
{
    struct output *out = &showing->cli->out;
    const struct lease_table *table = sight->table;
    size_t held = 0, ended = 0;
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_ACTIVE &&
            concerns(&showing->subject, table->leases[i])) {
            show_lease(out, sight, table->leases[i]);
            held++;
        }
    if (held == 0)
        output_print(out, LABEL "nobody\n", "holder");
    for (size_t i = table->lease_count; i-- > 0 && ended < ENDED_SHOWN;) {
        const struct lease *lease = table->leases[i];
        char time[TIME_TEXT_MAX];
        if (lease->status == LEASE_ACTIVE || !has_scope(&showing->subject, lease))
            continue;
        struct buffer holder = BUFFER_INIT(8 * KEY_BYTES_MAX);
        escape_append(&holder, lease->holder);
        output_print(out, LABEL "%s %s, token %" PRIu64 ", by %.*s\n",
                     ended++ == 0 ? "before" : "", lease_status_name(lease->status),
                     time_text(lease->expires_at, time), lease->token,
                     VIEW_ARGS(buffer_view(&holder)));
        buffer_release(&holder);
    }
}

static void show_queue(const struct showing *showing, const struct sight *sight)
{
    struct output *out = &showing->cli->out;
    const struct lease_table *table = sight->table;
    size_t place = 0;
    for (size_t i = 0; i < table->waiter_count; i++) {
        const struct waiter *waiter = &table->waiters[i];
        char label[32], span[SPAN_TEXT_MAX];
        if (!concerns(&showing->subject, waiter->wanted))
            continue;
        if (place++ == 0)
            output_print(out, "queue\n");
        snprintf(label, sizeof label, "  %zu", place);
        struct buffer text = BUFFER_INIT(8 * KEY_BYTES_MAX);
        escape_append(&text, waiter->wanted->holder);
        buffer_print(&text, ", %s, looks every %s%s", lease_mode_name(waiter->wanted->mode),
                     brief_text(waiter->wanted->poll, span),
                     waiter->reserved ? "; it is its turn" : "");
        output_print(out, LABEL "%.*s\n", label, VIEW_ARGS(buffer_view(&text)));
        buffer_release(&text);
    }
    if (place == 0)
        output_print(out, LABEL "nobody waits\n", "queue");
}

static void show_settings(struct output *out, const struct sight *sight)
{
    const struct lease_settings *s = &sight->settings;
    char ttl[SPAN_TEXT_MAX], margin[SPAN_TEXT_MAX], skew[SPAN_TEXT_MAX], late[SPAN_TEXT_MAX];
    if (sight->table->adopted)
        output_print(out, LABEL "another program's; the next acquire gives it tokens\n",
                     "form");
    else
        output_print(out, LABEL "%" PRIu64 "\n", "next token", sight->table->next_token);
    output_print(out,
                 LABEL "ttl at most %s, drift %" PRIu32 " ppm, margin %s, skew %s, late "
                       "bound %s, takeover %s\n",
                 "settings", span_text(s->ttl_max, ttl), s->drift_ppm,
                 span_text(s->margin, margin), span_text(s->skew_tolerance, skew),
                 span_text(s->late_bound, late),
                 s->watch_only ? "only by watching" : "by store time or by watching");
}

static const char *member(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "?";
}

static void show_audit(struct output *out, const struct lease_table *table)
{
    size_t first = table->audit_count > AUDIT_SHOWN ? table->audit_count - AUDIT_SHOWN : 0;
    for (size_t i = first; i < table->audit_count; i++) {
        json_t *entry =
            json_loadb(table->audit[i].data, table->audit[i].size, JSON_DECODE_ANY, NULL);
        struct buffer text = BUFFER_INIT(8 * KEY_BYTES_MAX);
        buffer_print(&text, "%s %s by %s: %s (token %" PRId64 " of %s)", member(entry, "at"),
                     member(entry, "what"), member(entry, "by"), member(entry, "why"),
                     (int64_t)json_integer_value(json_object_get(entry, "token")),
                     member(entry, "holder_id"));
        show_text(out, i == first ? "audit" : "", buffer_view(&text));
        buffer_release(&text);
        json_decref(entry);
    }
}

/* ---- show, for programs -------------------------------------------------------------- */

static json_t *settings_as_json(const struct lease_settings *s)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:s}", "drift_ppm", (json_int_t)s->drift_ppm,
                     "margin_ms", (json_int_t)(s->margin.us / 1000), "skew_tolerance_ms",
                     (json_int_t)(s->skew_tolerance.us / 1000), "ttl_max_ms",
                     (json_int_t)(s->ttl_max.us / 1000), "late_bound_ms",
                     (json_int_t)(s->late_bound.us / 1000), "takeover",
                     s->watch_only ? "observed" : "any");
}

static json_t *audit_as_json(const struct lease_table *table)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < table->audit_count; i++)
        json_array_append_new(list, json_loadb(table->audit[i].data, table->audit[i].size,
                                               JSON_DECODE_ANY, NULL));
    return list;
}

static json_t *table_as_json(const struct showing *showing, const struct sight *sight)
{
    const struct lease_table *table = sight->table;
    json_t *held = json_array(), *ended = json_array(), *queue = json_array();
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        if (lease->status == LEASE_ACTIVE && concerns(&showing->subject, lease))
            json_array_append_new(held, lease_as_json(sight, lease, /* place */ 0));
        else if (lease->status != LEASE_ACTIVE && has_scope(&showing->subject, lease))
            json_array_append_new(ended, lease_as_json(sight, lease, /* place */ 0));
    }
    for (size_t i = 0; i < table->waiter_count; i++)
        if (concerns(&showing->subject, table->waiters[i].wanted))
            json_array_append_new(queue, lease_as_json(sight, table->waiters[i].wanted,
                                                       json_array_size(queue) + 1));
    return json_pack("{s:s, s:s%, s:b, s:I, s:o, s:o, s:o, s:o, s:o}", "scope",
                     showing->subject.text, "table", sight->key.data, sight->key.size,
                     "adopted", table->adopted, "next_token", (json_int_t)table->next_token,
                     "held", held, "queue", queue, "ended", ended, "audit",
                     audit_as_json(table), "settings", settings_as_json(&sight->settings));
}

static enum hf_status show_table(void *argument, const struct sight *sight,
                                 struct hf_error *error)
{
    struct showing *showing = argument;
    struct output *out = &showing->cli->out;
    if (!sight->table) {
        *error = sight->error;
        return error->status;
    }
    if (showing->cli->json) {
        output_json(out, table_as_json(showing, sight));
        return HF_OK;
    }
    show_text(out, "scope", view_of(showing->subject.text));
    show_text(out, "table", sight->key);
    show_leases(showing, sight);
    show_queue(showing, sight);
    show_settings(out, sight);
    show_audit(out, sight->table);
    return HF_OK;
}

/* A lock that nobody ever asked for. */
static void show_nothing(struct cli *cli, const struct subject *subject)
{
    if (cli->json) {
        output_json(&cli->out,
                    json_pack("{s:s, s:s, s:[], s:[], s:[], s:[]}", "scope", subject->text,
                              "table", subject->key, "held", "queue", "ended", "audit"));
        return;
    }
    show_text(&cli->out, "scope", view_of(subject->text));
    show_text(&cli->out, "table", view_of(subject->key));
    output_print(&cli->out, LABEL "nobody; there was never any\n", "holder");
}

enum hf_status run_locks_show(struct cli *cli)
{
    struct hf_client *client = NULL;
    struct look look;
    struct showing showing = { .cli = cli };
    enum hf_status status = lock_connect(cli, /* holder */ NULL, &client);
    if (status == HF_OK)
        status = parse_subject(cli, client, &showing.subject);
    if (status == HF_OK) {
        look_init(&look, client);
        status =
            look_at(&look, view_of(showing.subject.key), show_table, &showing, &cli->error);
        look_release(&look);
        if (status == HF_NOT_FOUND) {
            show_nothing(cli, &showing.subject);
            status = HF_OK;
        }
    }
    hf_client_close(client);
    return status;
}

/* ---- break --------------------------------------------------------------------------- */

struct breaking {
    struct cli *cli;
    struct subject subject;
    const struct option_value *token; /* NULL: whichever has the scope */
    size_t matching;
    struct buffer text; /* the lease to break, and for people */
    struct buffer words;
    json_t *object;
};

static void note_lease(struct breaking *breaking, const struct sight *sight,
                       const struct lease *lease)
{
    if (breaking->matching++ > 0)
        return;
    append_lease_text(&breaking->text, sight, lease);
    append_scopes(&breaking->words, sight, lease);
    buffer_append(&breaking->words, VIEW(" held by "));
    escape_append(&breaking->words, lease->holder);
    buffer_print(&breaking->words, ", token %" PRIu64, lease->token);
    breaking->object = lease_as_json(sight, lease, /* place */ 0);
}

/* No lease has exactly this scope; if another covers it, say which. */
static enum hf_status none_to_break(const struct breaking *breaking, const struct sight *sight,
                                    const struct lease *other, struct hf_error *error)
{
    if (!other)
        return error_set(error, HF_NOT_FOUND, "nobody holds it");
    struct buffer scopes = BUFFER_INIT(4 * KEY_BYTES_MAX);
    append_scopes(&scopes, sight, other);
    error_set(error, HF_NOT_FOUND,
              "no lease of exactly %.80s; %.*s is in its way: name it with --token %" PRIu64,
              breaking->subject.text, VIEW_ARGS(view_first(buffer_view(&scopes), 80)),
              other->token);
    buffer_release(&scopes);
    return HF_NOT_FOUND;
}

static enum hf_status choose(void *argument, const struct sight *sight, struct hf_error *error)
{
    struct breaking *breaking = argument;
    const struct lease *other = NULL;
    if (!sight->table) {
        *error = sight->error;
        return error->status;
    }
    for (size_t i = 0; i < sight->table->lease_count; i++) {
        const struct lease *lease = sight->table->leases[i];
        if (lease->status != LEASE_ACTIVE)
            continue;
        bool chosen = breaking->token ? lease->token == breaking->token->number
                                      : has_scope(&breaking->subject, lease);
        if (chosen)
            note_lease(breaking, sight, lease);
        else if (concerns(&breaking->subject, lease))
            other = lease;
    }
    if (breaking->matching == 1)
        return HF_OK;
    if (breaking->matching == 0 && breaking->token)
        return error_set(error, HF_NOT_FOUND, "no lease of token %" PRIu64 " is active in %.*s",
                         breaking->token->number, VIEW_ARGS(sight->key));
    if (breaking->matching == 0)
        return none_to_break(breaking, sight, other, error);
    return error_set(error, HF_INVALID,
                     "%zu leases hold it: name one with --token ('locks show' lists them)",
                     breaking->matching);
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
    struct look look;
    struct breaking breaking = { .cli = cli,
                                 .token = cli_option(cli, "token"),
                                 .text = BUFFER_INIT(HF_LEASE_TEXT_MAX),
                                 .words = BUFFER_INIT(16 * KEY_BYTES_MAX) };
    const char *reason = option_text(cli, "reason");
    if (!reason || !reason[0])
        return error_set(&cli->error, HF_INVALID,
                         "--reason is missing: say why, for those who look later");
    enum hf_status status = lock_connect(cli, /* holder */ NULL, &client);
    if (status == HF_OK)
        status = parse_subject(cli, client, &breaking.subject);
    if (status == HF_OK) {
        look_init(&look, client);
        status = look_at(&look, view_of(breaking.subject.key), choose, &breaking, &cli->error);
        look_release(&look);
    }
    if (status == HF_OK)
        status = break_chosen(&breaking, client, reason);
    json_decref(breaking.object);
    buffer_release(&breaking.text);
    buffer_release(&breaking.words);
    hf_client_close(client);
    return status;
}
