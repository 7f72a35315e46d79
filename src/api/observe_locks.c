/* observe_locks.c: leases as they stand in the store: listed, shown for one scope, and who of them
 * is in the way of a lock. */
#include "api/lease_info.h"
#include "base/options.h"
#include "lock/handle.h"

#include <stdio.h>

/* ---- Lists --------------------------------------------------------------------------- */

struct listing {
    struct view start;
    struct hf_list_options options;
    hf_each_lease *each;
    void *argument;
    bool enough; /* `each` wants no more */
};

/* Gives one to the caller. CANCELLED: it has enough. */
static enum hf_status give_lease(const struct sight *sight, const struct lease *lease,
                                 size_t place, enum hf_relation relation, hf_each_lease *each,
                                 void *argument, struct hf_error *error)
{
    struct arena arena = ARENA_INIT;
    struct hf_lease_info info;
    enum hf_status status = HF_OK;
    if (!lease_info_fill(&arena, sight, lease, place, &info))
        status = error_no_memory(error);
    info.relation = relation;
    if (status == HF_OK && !each(argument, &info))
        status = HF_CANCELLED;
    arena_release(&arena);
    return status;
}

static enum hf_status list_one(struct listing *listing, const struct sight *sight,
                               const struct lease *lease, size_t place, struct hf_error *error)
{
    if (!look_matches(lease, listing->start))
        return HF_OK;
    enum hf_status status = give_lease(sight, lease, place, HF_RELATION_NONE, listing->each,
                                       listing->argument, error);
    listing->enough = status == HF_CANCELLED;
    return status;
}

static enum hf_status list_damaged(struct listing *listing, const struct sight *sight,
                                   struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    snprintf(key, sizeof key, "%.*s", VIEW_ARGS(sight->key));
    if (listing->options.damaged) {
        listing->options.damaged(listing->argument, key, &sight->error);
        return HF_OK;
    }
    *error = sight->error;
    error_prefix(error, "%.100s", key);
    return error->status;
}

static enum hf_status list_table(void *argument, const struct sight *sight,
                                 struct hf_error *error)
{
    struct listing *listing = argument;
    const struct lease_table *table = sight->table;
    enum hf_status status = HF_OK;
    if (listing->options.proceed && !listing->options.proceed(listing->argument))
        return error_set(error, HF_CANCELLED, "stopped by the caller");
    if (!table)
        return list_damaged(listing, sight, error);
    for (size_t i = 0; i < table->lease_count && status == HF_OK; i++)
        if (listing->options.ended || table->leases[i]->status == LEASE_ACTIVE)
            status = list_one(listing, sight, table->leases[i], /* place */ 0, error);
    for (size_t i = 0; listing->options.waiting && i < table->waiter_count && status == HF_OK;
         i++)
        status = list_one(listing, sight, table->waiters[i].wanted, i + 1, error);
    return status;
}

enum hf_status hf_locks_list(struct hf_client *client, const char *start,
                             const struct hf_list_options *options, hf_each_lease *each,
                             void *argument, struct hf_error *error)
{
    struct listing listing = { .options = HF_LIST_OPTIONS, .each = each, .argument = argument };
    struct hf_error why;
    struct look look;
    if (ERROR_IF_NULL(error, client, start) != HF_OK)
        return HF_INVALID;
    if (!each)
        return error_set(error, HF_INVALID, "each must not be NULL");
    enum hf_status status = read_caller_options("HF_LIST_OPTIONS", options, &listing.options,
                                                sizeof listing.options, error);
    if (status != HF_OK)
        return status;
    listing.start = view_of(start);
    look_init(&look, client);
    status = look_around(&look, listing.start, list_table, &listing, &why);
    look_release(&look);
    return error_tell(error, listing.enough ? HF_OK : status, &why);
}

/* ---- One scope ----------------------------------------------------------------------- */

struct showing {
    struct scope scope;
    struct hf_table_info info;
    struct hf_table_info *table; /* the caller's, or NULL */
    hf_each_lease *each;
    hf_each_audit *audit;
    void *argument;
    bool enough;
};

static enum hf_relation relation_of(const struct scope *scope, const struct lease *lease)
{
    struct scope copy = *scope;
    struct lease alone = { .scopes = &copy, .scope_count = 1 };
    for (size_t i = 0; i < lease->scope_count; i++)
        if (scope_equal(&lease->scopes[i], scope))
            return HF_RELATION_OF_SCOPE;
    return leases_conflict(lease, &alone) ? HF_RELATION_IN_WAY : HF_RELATION_NONE;
}

static enum hf_status show_one(struct showing *showing, const struct sight *sight,
                               const struct lease *lease, size_t place, struct hf_error *error)
{
    enum hf_status status = give_lease(sight, lease, place, relation_of(&showing->scope, lease),
                                       showing->each, showing->argument, error);
    showing->enough = status == HF_CANCELLED;
    return status;
}

static enum hf_status show_audit(struct showing *showing, struct view json,
                                 struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(json.size + 1);
    buffer_append(&text, json);
    const char *whole = buffer_text(&text);
    enum hf_status status = whole ? HF_OK : error_no_memory(error);
    if (whole && !showing->audit(showing->argument, whole)) {
        showing->enough = true;
        status = HF_CANCELLED;
    }
    buffer_release(&text);
    return status;
}

static void fill_table(const struct sight *sight, struct hf_table_info *info)
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

static enum hf_status show_table(void *argument, const struct sight *sight,
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
    for (size_t i = 0; showing->each && i < table->lease_count && status == HF_OK; i++)
        status = show_one(showing, sight, table->leases[i], /* place */ 0, error);
    for (size_t i = 0; showing->each && i < table->waiter_count && status == HF_OK; i++)
        status = show_one(showing, sight, table->waiters[i].wanted, i + 1, error);
    for (size_t i = 0; showing->audit && i < table->audit_count && status == HF_OK; i++)
        status = show_audit(showing, table->audit[i], error);
    return status;
}

enum hf_status hf_locks_show(struct hf_client *client, const char *scope,
                             struct hf_table_info *table, hf_each_lease *each,
                             hf_each_audit *audit, void *argument, struct hf_error *error)
{
    struct showing showing = { .info = HF_TABLE_INFO,
                               .table = table,
                               .each = each,
                               .audit = audit,
                               .argument = argument };
    struct hf_error why;
    struct look look;
    if (check_caller_report("HF_TABLE_INFO", table, error) != HF_OK ||
        ERROR_IF_NULL(error, client, scope) != HF_OK)
        return HF_INVALID;
    enum hf_status status = scope_parse(view_of(scope), &showing.scope, &why);
    if (status == HF_OK)
        status = table_key(&client->space, &showing.scope, showing.info.table, &why);
    if (status != HF_OK)
        return error_tell(error, status, &why);
    scope_text(&showing.scope, showing.info.scope);
    look_init(&look, client);
    status = look_at(&look, view_of(showing.info.table), show_table, &showing, &why);
    look_release(&look);
    if (status == HF_NOT_FOUND) {
        showing.info.absent = true;
        write_caller_report(table, &showing.info, sizeof showing.info);
    }
    bool good = showing.enough || status == HF_NOT_FOUND;
    return error_tell(error, good ? HF_OK : status, &why);
}

/* ---- Who is in the way --------------------------------------------------------------- */

struct blocking {
    struct hf_lock *lock;
    hf_each_blocker *each;
    void *argument;
    size_t blocked; /* of the scopes that are wanted */
    bool enough;
    const struct hf_blocker *done; /* after ALREADY; else NULL */
    struct hf_blocker space;       /* of that */
};

/* The first active lease that is in the way of one scope; NULL: none is. */
static const struct lease *find_holder(const struct lease_table *table,
                                       const struct lease *wanted)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_ACTIVE &&
            leases_conflict(table->leases[i], wanted))
            return table->leases[i];
    return NULL;
}

static enum hf_status give_blocker(struct blocking *blocking, const struct sight *sight,
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
        blocking->enough = !blocking->each(blocking->argument, scope_text(wanted, text), &info);
    arena_release(&arena);
    return status;
}

static enum hf_status find_blockers(void *argument, const struct sight *sight,
                                    struct hf_error *error)
{
    struct blocking *blocking = argument;
    struct hf_lock *lock = blocking->lock;
    enum hf_status status = HF_OK;
    for (size_t i = 0; sight->table && i < lock->scope_count && status == HF_OK; i++) {
        struct lease wanted = { .scopes = &lock->scopes[i],
                                .scope_count = 1,
                                .mode = lock->options.mode == HF_SHARED ? LEASE_SHARED
                                                                        : LEASE_EXCLUSIVE };
        const struct lease *lease = find_holder(sight->table, &wanted);
        if (!lease)
            continue;
        blocking->blocked++;
        if (!blocking->enough)
            status = give_blocker(blocking, sight, &lock->scopes[i], lease, error);
    }
    return status;
}

static enum hf_status look_for(struct blocking *blocking, look_fn *find, struct hf_error *error)
{
    struct hf_error why;
    struct look look;
    look_init(&look, blocking->lock->client);
    look.briefly = true;
    enum hf_status status =
        look_at(&look, doc_key(blocking->lock->place->doc), find, blocking, &why);
    look_release(&look);
    if (status == HF_OK && blocking->blocked == 0 && !blocking->done)
        status = HF_NOT_FOUND;
    if (status == HF_NOT_FOUND)
        error_set(&why, status, "nobody is in the way any more");
    return error_tell(error, status, &why);
}

enum hf_status hf_lock_blockers(struct hf_lock *lock, hf_each_blocker *each, void *argument,
                                struct hf_error *error)
{
    struct blocking blocking = { .lock = lock, .each = each, .argument = argument };
    if (ERROR_IF_NULL(error, lock) != HF_OK)
        return HF_INVALID;
    if (!each)
        return error_set(error, HF_INVALID, "each must not be NULL");
    return look_for(&blocking, find_blockers, error);
}

/* Notes the first, and when all of them are over. */
static bool note_blocker(void *argument, const char *scope, const struct hf_lease_info *lease)
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

static struct span once_period(const struct hf_lock_options *options)
{
    int64_t slack_ms = options->once_slack_ms;
    if (slack_ms == 0)
        slack_ms = options->once_per_ms / 10;
    return SPAN_MS(options->once_per_ms - (slack_ms > 0 ? slack_ms : 0));
}

/* Who did it last, and when it may be done again. */
static void find_done(struct blocking *blocking, const struct sight *sight)
{
    const struct hf_lock *lock = blocking->lock;
    const struct lease_table *table = sight->table;
    struct lease wanted = { .scopes = lock->scopes, .scope_count = lock->scope_count };
    struct hf_blocker *done = &blocking->space;
    for (size_t i = table->lease_count; i-- > 0 && !blocking->done;) {
        const struct lease *lease = table->leases[i];
        if (lease->status != LEASE_COMPLETED || !leases_same_scopes(lease, &wanted))
            continue;
        struct span ago = once_per_age(lease, &sight->evidence);
        struct span left = SPAN_US(once_period(&lock->options).us - ago.us);
        *done = (struct hf_blocker){ .struct_size = sizeof *done,
                                     .state = HF_LEASE_COMPLETED,
                                     .token = lease->token,
                                     .held_ms = shown_ms(lease_held(lease, &sight->evidence)),
                                     .retry_ms = left.us > 0 ? shown_ms(left) : 0 };
        scope_text(&lock->scopes[0], done->scope);
        snprintf(done->holder, sizeof done->holder, "%.*s", VIEW_ARGS(lease->holder));
        blocking->done = done;
    }
}

/* What was done within the period comes first: then nobody would be granted it. */
static enum hf_status find_first(void *argument, const struct sight *sight,
                                 struct hf_error *error)
{
    struct blocking *blocking = argument;
    if (sight->table && blocking->lock->options.once_per_ms > 0)
        find_done(blocking, sight);
    if (blocking->done && blocking->done->retry_ms > 0)
        return HF_OK;
    enum hf_status status = find_blockers(argument, sight, error);
    if (blocking->blocked > 0)
        blocking->done = NULL;
    return status;
}

enum hf_status hf_lock_blocker(struct hf_lock *lock, struct hf_blocker *blocker,
                               struct hf_error *error)
{
    struct hf_blocker found = HF_BLOCKER;
    struct blocking blocking = { .lock = lock, .each = note_blocker, .argument = &found };
    if (check_caller_report("HF_BLOCKER", blocker, error) != HF_OK ||
        ERROR_IF_NULL(error, lock, blocker) != HF_OK)
        return HF_INVALID;
    enum hf_status status = look_for(&blocking, find_first, error);
    if (status == HF_OK)
        write_caller_report(blocker, blocking.done ? blocking.done : &found, sizeof found);
    return status;
}
