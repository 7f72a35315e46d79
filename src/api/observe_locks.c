/* SPDX-License-Identifier: Apache-2.0 */
/* observe_locks.c: lists leases, shows the leases of one scope, and finds the lease that blocks a
 * lock. */
#include "api/lease_info.h"
#include "base/options.h"
#include "lock/handle.h"
#include "lock/server.h"

#include <stdio.h>

/* ---- Lists --------------------------------------------------------------------------- */

/* The caller, which receives the leases one by one. */
struct lease_reader {
    hf_each_lease *each;
    void *argument;
    bool stopped; /* the caller stopped the list */
};

struct listing {
    struct view start;
    struct hf_list_options options;
    struct lease_reader reader;
};

/* Passes one lease to the caller. CANCELLED: the caller stopped the list. */
static enum hf_status report_lease(struct lease_reader *reader,
                                   const struct table_snapshot *sight,
                                   const struct lease *lease, size_t place,
                                   enum hf_relation relation, struct hf_error *error)
{
    struct arena arena = ARENA_INIT;
    struct hf_lease_info info;
    enum hf_status status = HF_OK;
    if (!lease_info_fill(&arena, sight, lease, place, &info))
        status = error_no_memory(error);
    info.relation = relation;
    if (status == HF_OK && !reader->each(reader->argument, &info)) {
        reader->stopped = true;
        status = HF_CANCELLED;
    }
    arena_release(&arena);
    return status;
}

static enum hf_status list_lease(void *argument, const struct table_snapshot *sight,
                                 const struct lease *lease, size_t place,
                                 struct hf_error *error)
{
    struct listing *listing = argument;
    bool listed = place > 0 ? listing->options.waiting
                            : listing->options.ended || lease->status == LEASE_ACTIVE;
    if (!listed || !lease_starts_with(lease, listing->start))
        return HF_OK;
    return report_lease(&listing->reader, sight, lease, place, HF_RELATION_NONE, error);
}

static enum hf_status list_table(void *argument, const struct table_snapshot *sight,
                                 struct hf_error *error)
{
    struct listing *listing = argument;
    void *caller = listing->reader.argument;
    enum hf_status status = list_proceeds(&listing->options, caller, error);
    if (status != HF_OK)
        return status;
    if (!sight->table)
        return list_damaged(&listing->options, caller, sight->key, &sight->error, error);
    return visit_leases(sight, list_lease, listing, error);
}

static bool list_served(void *argument, const struct hf_lease_info *lease)
{
    struct listing *listing = argument;
    bool wanted = lease->place > 0 ? listing->options.waiting : true;
    return !wanted || listing->reader.each(listing->reader.argument, lease);
}

static enum hf_status list_at_server(struct hf_client *client, struct listing *listing,
                                     struct hf_error *error)
{
    struct server_list list = { .client = client,
                                .start = listing->start,
                                .each = list_served,
                                .argument = listing,
                                .ended = listing->options.ended };
    enum hf_status status = list_proceeds(&listing->options, listing->reader.argument, error);
    return status == HF_OK ? client_server(client)->list(&list, error) : status;
}

enum hf_status hf_locks_list(struct hf_client *client, const char *start,
                             const struct hf_list_options *options, hf_each_lease *each,
                             void *argument, struct hf_error *error)
{
    struct listing listing = { .options = HF_LIST_OPTIONS,
                               .reader = { each, argument, false } };
    struct hf_error why;
    struct table_reader look;
    if (ERROR_IF_NULL(&why, client, start) != HF_OK ||
        error_if_none(&why, "each", each) != HF_OK ||
        READ_OPTIONS(HF_LIST_OPTIONS, options, &listing.options, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    listing.start = view_of(start);
    if (client_server(client))
        return error_tell(error, list_at_server(client, &listing, &why), &why);
    table_reader_init(&look, client);
    enum hf_status status = table_reader_list(&look, listing.start, list_table, &listing, &why);
    table_reader_release(&look);
    return error_tell(error, listing.reader.stopped ? HF_OK : status, &why);
}

/* ---- One scope ----------------------------------------------------------------------- */

struct showing {
    struct scope scope;
    struct hf_table_info info;
    struct hf_table_info *table; /* provided by the caller, or NULL */
    struct lease_reader reader;  /* `each` may be NULL */
    hf_each_audit *audit;
};

static enum hf_relation relation_of(const struct scope *scope, const struct lease *lease)
{
    struct scope copy = *scope;
    struct lease_wish alone = { .scopes = &copy, .scope_count = 1 };
    for (size_t i = 0; i < lease->wish.scope_count; i++)
        if (scope_equal(&lease->wish.scopes[i], scope))
            return HF_RELATION_OF_SCOPE;
    return wishes_conflict(&lease->wish, &alone) ? HF_RELATION_IN_WAY : HF_RELATION_NONE;
}

static enum hf_status show_lease(void *argument, const struct table_snapshot *sight,
                                 const struct lease *lease, size_t place,
                                 struct hf_error *error)
{
    struct showing *showing = argument;
    return report_lease(&showing->reader, sight, lease, place,
                        relation_of(&showing->scope, lease), error);
}

static enum hf_status show_audit(struct showing *showing, struct view json,
                                 struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(json.size + 1);
    buffer_append(&text, json);
    const char *whole = buffer_text(&text);
    enum hf_status status = whole ? HF_OK : error_no_memory(error);
    if (whole && !showing->audit(showing->reader.argument, whole)) {
        showing->reader.stopped = true;
        status = HF_CANCELLED;
    }
    buffer_release(&text);
    return status;
}

static void fill_table(const struct table_snapshot *sight, struct hf_table_info *info)
{
    const struct lease_settings *settings = &sight->settings;
    info->absent = false;
    info->adopted = sight->table->adopted;
    info->next_token = sight->table->next_token;
    info->drift_ppm = settings->drift_ppm;
    info->margin_ms = settings->margin.us / 1000;
    info->skew_tolerance_ms = settings->skew_tolerance.us / 1000;
    info->ttl_max_ms = settings->ttl_max.us / 1000;
    info->late_bound_ms = settings->late_bound.us / 1000;
    info->takeover_observed = settings->watch_only;
}

static enum hf_status show_table(void *argument, const struct table_snapshot *sight,
                                 struct hf_error *error)
{
    struct showing *showing = argument;
    const struct lease_table *table = sight->table;
    enum hf_status status = HF_OK;
    if (!table) {
        *error = sight->error;
        return error->status;
    }
    fill_table(sight, &showing->info);
    write_caller_report(showing->table, &showing->info, sizeof showing->info);
    if (showing->reader.each)
        status = visit_leases(sight, show_lease, showing, error);
    size_t audit_count = showing->audit ? table->audit_count : 0;
    for (size_t i = 0; i < audit_count; i++) {
        if (status != HF_OK)
            break;
        status = show_audit(showing, table->audit[i], error);
    }
    return status;
}

static bool show_served(void *argument, const struct hf_lease_info *lease)
{
    struct showing *showing = argument;
    struct hf_lease_info shown = *lease;
    if (lease->scope_count == 0 || strcmp(lease->scopes[0], showing->info.scope) != 0)
        return true;
    shown.relation = HF_RELATION_OF_SCOPE;
    showing->info.absent = false;
    if (shown.token >= showing->info.next_token)
        showing->info.next_token = shown.token + 1;
    return !showing->reader.each || showing->reader.each(showing->reader.argument, &shown);
}

/* A server does not show tables: only what is held and waited for, of this scope alone. */
static enum hf_status show_at_server(struct hf_client *client, struct showing *showing,
                                     struct hf_error *error)
{
    struct server_list list = { .client = client,
                                .start = view_of(showing->info.scope),
                                .each = show_served,
                                .argument = showing,
                                .ended = true };
    showing->info.absent = true;
    enum hf_status status =
        table_key_at_server(client_space(client), &showing->scope,
                            /* exclusive */ true, showing->info.table, error);
    if (status == HF_OK)
        status = client_server(client)->list(&list, error);
    if (status == HF_OK)
        write_caller_report(showing->table, &showing->info, sizeof showing->info);
    return status;
}

enum hf_status hf_locks_show(struct hf_client *client, const char *scope,
                             struct hf_table_info *table, hf_each_lease *each,
                             hf_each_audit *audit, void *argument, struct hf_error *error)
{
    struct showing showing = { .info = HF_TABLE_INFO,
                               .table = table,
                               .reader = { each, argument, false },
                               .audit = audit };
    struct hf_error why;
    struct table_reader look;
    if (CHECK_REPORT(HF_TABLE_INFO, table, error) != HF_OK ||
        ERROR_IF_NULL(error, client, scope) != HF_OK)
        return HF_INVALID;
    enum hf_status status = scope_parse(view_of(scope), &showing.scope, &why);
    if (status == HF_OK)
        status = table_key(client_space(client), &showing.scope, showing.info.table, &why);
    if (status != HF_OK)
        return error_tell(error, status, &why);
    scope_text(&showing.scope, showing.info.scope);
    if (client_server(client))
        return error_tell(error, show_at_server(client, &showing, &why), &why);
    table_reader_init(&look, client);
    status = table_reader_read(&look, view_of(showing.info.table), show_table, &showing, &why);
    table_reader_release(&look);
    if (status == HF_NOT_FOUND) {
        showing.info.absent = true;
        write_caller_report(table, &showing.info, sizeof showing.info);
    }
    bool good = showing.reader.stopped || status == HF_NOT_FOUND;
    return error_tell(error, good ? HF_OK : status, &why);
}

/* ---- Timelines ----------------------------------------------------------------------- */

struct timeline_listing {
    struct server_timeline timeline;
    struct hf_timeline_info info;
    struct hf_timeline_info *caller_info; /* or NULL */
};

static void report_timeline_info(struct server_timeline *timeline)
{
    struct timeline_listing *listing = (struct timeline_listing *)(void *)timeline;
    write_caller_report(listing->caller_info, &listing->info, sizeof listing->info);
}

enum hf_status hf_locks_timeline(struct hf_client *client, const char *scope,
                                 struct hf_timeline_info *info, hf_each_hold *each,
                                 void *argument, struct hf_error *error)
{
    struct timeline_listing listing = { .info = HF_TIMELINE_INFO, .caller_info = info };
    struct scope parsed;
    struct hf_error why;
    if (CHECK_REPORT(HF_TIMELINE_INFO, info, error) != HF_OK ||
        ERROR_IF_NULL(error, client, scope) != HF_OK)
        return HF_INVALID;
    enum hf_status status = scope_parse(view_of(scope), &parsed, &why);
    if (status != HF_OK)
        return error_tell(error, status, &why);
    if (!client_server(client))
        return error_set(
            error, HF_UNSUPPORTED,
            "only a server keeps a timeline; hf_locks_show reads the lock's table");
    scope_text(&parsed, listing.info.scope);
    listing.timeline = (struct server_timeline){ .client = client,
                                                 .info = &listing.info,
                                                 .begin = report_timeline_info,
                                                 .each = each,
                                                 .argument = argument };
    return error_tell(error, client_server(client)->timeline(&listing.timeline, &why), &why);
}

/* ---- Blockers ------------------------------------------------------------------------ */

struct blocking {
    struct hf_lock *lock;
    hf_each_blocker *each;
    void *argument;
    size_t blocked; /* how many of the requested scopes are blocked */
    bool stopped;
    const struct hf_blocker *done; /* set after ALREADY, otherwise NULL */
    struct hf_blocker space;       /* memory for it */
};

/* The first active lease that blocks one scope, or NULL. */
static const struct lease *find_holder(const struct lease_table *table,
                                       const struct lease_wish *wanted)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_ACTIVE &&
            wishes_conflict(&table->leases[i]->wish, wanted))
            return table->leases[i];
    return NULL;
}

static enum hf_status report_blocker(struct blocking *blocking,
                                     const struct table_snapshot *sight,
                                     const struct scope *wanted, const struct lease *lease,
                                     struct hf_error *error)
{
    char text[SCOPE_TEXT_MAX + 1];
    struct arena arena = ARENA_INIT;
    struct hf_lease_info info;
    enum hf_status status = HF_OK;
    if (!lease_info_fill(&arena, sight, lease, /* place */ 0, &info))
        status = error_no_memory(error);
    else
        blocking->stopped =
            !blocking->each(blocking->argument, scope_text(wanted, text), &info);
    arena_release(&arena);
    return status;
}

static enum hf_status report_blockers(void *argument, const struct table_snapshot *sight,
                                      struct hf_error *error)
{
    struct blocking *blocking = argument;
    struct hf_lock *lock = blocking->lock;
    enum hf_status status = HF_OK;
    if (!sight->table)
        return HF_OK;
    for (size_t i = 0; i < lock->scope_count; i++) {
        struct lease_wish wanted = { .scopes = &lock->scopes[i],
                                     .scope_count = 1,
                                     .mode = lock->options.mode == HF_SHARED
                                                 ? LEASE_SHARED
                                                 : LEASE_EXCLUSIVE };
        const struct lease *lease = find_holder(sight->table, &wanted);
        if (!lease)
            continue;
        blocking->blocked++;
        if (!blocking->stopped)
            status = report_blocker(blocking, sight, &lock->scopes[i], lease, error);
        if (status != HF_OK)
            break;
    }
    return status;
}

/* The last completion; while it counts, no client is granted the lock. */
static void note_served_completion(struct blocking *blocking, const struct hf_lease_info *lease)
{
    const struct hf_lock *lock = blocking->lock;
    struct hf_blocker *done = &blocking->space;
    struct env *env = client_env(lock->client);
    int64_t age_ms = env_wall(env).us / 1000 - lease->acquired_at_ms;
    int64_t left_ms = lock->options.once_per_ms - once_slack(&lock->options).us / 1000 - age_ms;
    *done = (struct hf_blocker){ .struct_size = sizeof *done,
                                 .state = HF_LEASE_COMPLETED,
                                 .token = lease->token,
                                 .held_ms = lease->held_ms,
                                 .retry_ms = left_ms > 0 ? left_ms : 0 };
    snprintf(done->scope, sizeof done->scope, "%s", lease->scopes[0]);
    snprintf(done->holder, sizeof done->holder, "%s", lease->holder);
    blocking->done = done;
}

/* Which of the lock's scopes a lease covers, as far as the texts show; the count: none. */
static size_t served_scope(const struct hf_lock *lock, const struct hf_lease_info *lease,
                           char ret_scope[HF_SCOPE_TEXT_MAX])
{
    size_t at = 0;
    for (; at < lock->scope_count; at++) {
        scope_text(&lock->scopes[at], ret_scope);
        for (size_t i = 0; i < lease->scope_count; i++)
            if (strcmp(lease->scopes[i], ret_scope) == 0)
                return at;
    }
    return at;
}

static bool report_served(void *argument, const struct hf_lease_info *lease)
{
    struct blocking *blocking = argument;
    char scope[HF_SCOPE_TEXT_MAX];
    if (lease->place > 0 ||
        served_scope(blocking->lock, lease, scope) == blocking->lock->scope_count)
        return true;
    if (lease->state == HF_LEASE_COMPLETED)
        note_served_completion(blocking, lease);
    if (lease->lease[0] == '\0')
        return true;
    blocking->done = NULL;
    blocking->blocked++;
    blocking->stopped = !blocking->each(blocking->argument, scope, lease);
    return !blocking->stopped && blocking->lock->scope_count > 1;
}

/* Several scopes begin with the same kind, so that is what is listed. */
static enum hf_status find_at_server(struct blocking *blocking, struct hf_error *error)
{
    struct hf_lock *lock = blocking->lock;
    char scope[HF_SCOPE_TEXT_MAX];
    if (lock->scope_count == 0)
        return HF_OK;
    scope_text(&lock->scopes[0], scope);
    if (lock->scope_count > 1)
        scope[strcspn(scope, ":") + 1] = '\0';
    struct server_list list = { .client = lock->client,
                                .start = view_of(scope),
                                .each = report_served,
                                .argument = blocking,
                                .ended = lock->options.once_per_ms > 0 };
    return client_server(lock->client)->list(&list, error);
}

static enum hf_status find_in_table(struct blocking *blocking, table_snapshot_fn *find,
                                    struct hf_error *error)
{
    struct hf_error why;
    struct table_reader look;
    enum hf_status status;
    if (client_server(blocking->lock->client)) {
        status = find_at_server(blocking, &why);
    } else {
        table_reader_init(&look, blocking->lock->client);
        look.briefly = true;
        status =
            table_reader_read(&look, doc_key(blocking->lock->ref->doc), find, blocking, &why);
        table_reader_release(&look);
    }
    if (status == HF_OK && blocking->blocked == 0 && !blocking->done)
        status = HF_NOT_FOUND;
    if (status == HF_NOT_FOUND)
        error_set(&why, status, "no lease blocks the lock any longer");
    return error_tell(error, status, &why);
}

enum hf_status hf_lock_blockers(struct hf_lock *lock, hf_each_blocker *each, void *argument,
                                struct hf_error *error)
{
    struct blocking blocking = { .lock = lock, .each = each, .argument = argument };
    if (ERROR_IF_NULL(error, lock) != HF_OK || error_if_none(error, "each", each) != HF_OK)
        return HF_INVALID;
    return find_in_table(&blocking, report_blockers, error);
}

/* Records the first blocker, and when all blocking leases can be taken over. */
static bool summarize_blocker(void *argument, const char *scope,
                              const struct hf_lease_info *lease)
{
    struct hf_blocker *blocker = argument;
    if (blocker->scopes_blocked++ == 0) {
        blocker->state = lease->state;
        snprintf(blocker->scope, sizeof blocker->scope, "%s", scope);
        snprintf(blocker->holder, sizeof blocker->holder, "%s", lease->holder);
        blocker->barrier = lease->barrier;
        blocker->token = lease->token;
        blocker->held_ms = lease->held_ms;
        blocker->remaining_ms = lease->remaining_ms;
    }
    if (lease->takeover_ms > blocker->retry_ms)
        blocker->retry_ms = lease->takeover_ms;
    return true;
}

/* Finds the last completion, and when the work may be done again. */
static void find_completion(struct blocking *blocking, const struct table_snapshot *sight)
{
    const struct hf_lock *lock = blocking->lock;
    const struct lease_table *table = sight->table;
    struct lease_wish wanted = { .scopes = lock->scopes, .scope_count = lock->scope_count };
    struct hf_blocker *done = &blocking->space;
    for (size_t i = table->lease_count; i-- > 0;) {
        const struct lease *lease = table->leases[i];
        if (lease->status != LEASE_COMPLETED || !wishes_same_scopes(&lease->wish, &wanted))
            continue;
        struct span left =
            SPAN_US(SPAN_MS(lock->options.once_per_ms).us - once_slack(&lock->options).us -
                    once_per_age(lease, &sight->evidence).us);
        *done = (struct hf_blocker){ .struct_size = sizeof *done,
                                     .state = HF_LEASE_COMPLETED,
                                     .token = lease->token,
                                     .held_ms = shown_ms(lease_held(lease, &sight->evidence)),
                                     .retry_ms = left.us > 0 ? shown_ms(left) : 0 };
        scope_text(&lock->scopes[0], done->scope);
        snprintf(done->holder, sizeof done->holder, "%.*s", VIEW_ARGS(lease->holder));
        blocking->done = done;
        return;
    }
}

/* A completion within the period takes precedence: while it counts, no client is granted the
 * lock. */
static enum hf_status find_reason(void *argument, const struct table_snapshot *sight,
                                  struct hf_error *error)
{
    struct blocking *blocking = argument;
    if (sight->table && blocking->lock->options.once_per_ms > 0)
        find_completion(blocking, sight);
    if (blocking->done && blocking->done->retry_ms > 0)
        return HF_OK;
    enum hf_status status = report_blockers(argument, sight, error);
    if (blocking->blocked > 0)
        blocking->done = NULL;
    return status;
}

enum hf_status hf_lock_blocker(struct hf_lock *lock, struct hf_blocker *blocker,
                               struct hf_error *error)
{
    struct hf_blocker found = HF_BLOCKER;
    struct blocking blocking = { .lock = lock, .each = summarize_blocker, .argument = &found };
    if (CHECK_REPORT(HF_BLOCKER, blocker, error) != HF_OK ||
        ERROR_IF_NULL(error, lock, blocker) != HF_OK)
        return HF_INVALID;
    enum hf_status status = find_in_table(&blocking, find_reason, error);
    if (status == HF_OK)
        write_caller_report(blocker, blocking.done ? blocking.done : &found, sizeof found);
    return status;
}
