/* SPDX-License-Identifier: Apache-2.0 */
/* timeline.c: the route /v1/timeline: who held a lock when.
 *
 * What is done through this server is noted as it is answered, with the owner and the time. What
 * others do is read from the lock's table while somebody looks, at most every LOOK_EVERY: the table
 * lists the leases that are held, and the latest that have ended. */
#include "serve/api/exchange.h"

#include "base/owner.h"

#define LOOK_EVERY     SPAN_MS(500)
#define SIGHTS_MAX     1000
#define TIMELINE_LIMIT 1000

static int64_t timeline_now_ms(const struct exchange *exchange)
{
    struct env *env = exchange->api->env;
    struct wall_time wall = env_wall(env);
    return timelines_clock_ms(exchange->api->events.timelines, wall, env_now(env));
}

/* ---- What is done here --------------------------------------------------------------- */

static void note_hold(const struct exchange *exchange, const struct timeline_hold *hold,
                      int64_t now_ms)
{
    char room[CORE_RESOURCE_MAX + 1]; /* so that nothing is allocated */
    struct buffer resource = { .data = room,
                               .capacity = sizeof room,
                               .max = CORE_RESOURCE_MAX };
    exchange_print_resource(exchange, &resource);
    if (!resource.failed)
        timelines_note(exchange->api->events.timelines, buffer_view(&resource), hold, now_ms);
}

void report_hold_began(const struct exchange *exchange, uint64_t token, int64_t left_ms)
{
    const struct ask *ask = &exchange->ask;
    enum hf_mode mode = ask->scope ? ask->mode : HF_EXCLUSIVE;
    int64_t now_ms = timeline_now_ms(exchange);
    struct timeline_hold hold = { .token = token,
                                  .began = { now_ms, TIMELINE_EXACT },
                                  .expires_ms = now_ms + left_ms,
                                  .exclusive = mode == HF_EXCLUSIVE,
                                  .mode = hf_mode_name(mode),
                                  .owner = ask->owner };
    note_hold(exchange, &hold, now_ms);
}

void report_hold_renewed(const struct exchange *exchange, uint64_t token, int64_t left_ms)
{
    int64_t now_ms = timeline_now_ms(exchange);
    struct timeline_hold hold = { .token = token, .expires_ms = now_ms + left_ms };
    note_hold(exchange, &hold, now_ms);
}

void report_hold_ended(const struct exchange *exchange, uint64_t token, bool broken)
{
    const struct ask *ask = &exchange->ask;
    int64_t now_ms = timeline_now_ms(exchange);
    struct timeline_hold hold = { .token = token,
                                  .end = broken ? TIMELINE_BREAK : TIMELINE_RELEASE,
                                  .ended = { now_ms, TIMELINE_EXACT } };
    if (broken) {
        hold.by = ask->owner ? ask->owner : exchange->who;
        hold.reason = ask->reason;
    }
    note_hold(exchange, &hold, now_ms);
}

/* ---- What others do ------------------------------------------------------------------ */

/* A read of the table, made by a worker. */
struct timeline_sight {
    struct arena *arena;
    struct wall_time wall; /* when it began, by both clocks */
    struct mono_time now;
    uint64_t next_token;
    bool failed;
    size_t count;
    struct timeline_hold holds[SIGHTS_MAX];
};

static const char *sight_text(struct timeline_sight *sight, const char *text)
{
    struct view copy = arena_copy(sight->arena, view_of(text));
    sight->failed = sight->failed || !copy.data;
    return copy.data;
}

static bool add_sight(void *argument, const struct hf_lease_info *lease)
{
    struct timeline_sight *sight = argument;
    struct timeline_hold *hold = &sight->holds[sight->count];
    if (!timeline_read_lease(lease, hold))
        return true;
    sight->count++;
    hold->owner = owner_text(sight->arena, lease->note, lease->holder);
    hold->holder = sight_text(sight, hold->holder);
    if (hold->scope)
        hold->scope = sight_text(sight, hold->scope);
    sight->failed = sight->failed || !hold->owner;
    return sight->count < SIGHTS_MAX && !sight->failed;
}

/* Who broke a lease, and why. */
static bool add_break(void *argument, const char *json)
{
    struct timeline_sight *sight = argument;
    struct buffer by = BUFFER_INIT(4096), why = BUFFER_INIT(16384);
    uint64_t token = timeline_read_audit(json, &by, &why);
    for (size_t i = 0; i < sight->count; i++)
        if (sight->holds[i].token == token && sight->holds[i].end == TIMELINE_BREAK) {
            sight->holds[i].by = sight_text(sight, by.failed ? "" : buffer_text(&by));
            sight->holds[i].reason = sight_text(sight, why.failed ? "" : buffer_text(&why));
        }
    buffer_release(&by);
    buffer_release(&why);
    return !sight->failed;
}

static enum hf_status read_lock_table(struct exchange *exchange, struct hf_error *error)
{
    struct timeline_sight *sight = exchange->ask.sight;
    struct hf_table_info table = HF_TABLE_INFO;
    sight->wall = env_wall(exchange->api->env);
    sight->now = env_now(exchange->api->env);
    enum hf_status status = hf_locks_show(exchange->space->client, exchange_scope(exchange),
                                          &table, add_sight, add_break, sight, error);
    sight->next_token = table.next_token;
    return status == HF_OK && sight->failed ? error_no_memory(error) : status;
}

static void merge_sight(struct exchange *exchange, struct view resource,
                        struct timeline *timeline)
{
    const struct timeline_sight *sight = exchange->ask.sight;
    struct timelines *timelines = exchange->api->events.timelines;
    int64_t at_ms = timelines_clock_ms(timelines, sight->wall, sight->now);
    timeline_begin_look(timeline);
    for (size_t i = 0; i < sight->count; i++) {
        struct timeline_hold hold = sight->holds[i];
        if (hold.expires_ms > 0) /* it was counted by the wall clock, which may be behind */
            hold.expires_ms += at_ms - sight->wall.us / 1000;
        timeline_see(timeline, &hold);
    }
    timeline_end_look(timeline, sight->next_token, at_ms);
    timelines_looked(timelines, resource, timeline_now_ms(exchange));
}

/* ---- Replies ------------------------------------------------------------------------- */

static void put_time(struct buffer *json, const char *name, const char *precision_name,
                     struct timeline_time time)
{
    json_put_i64(json, name, time.at_ms);
    if (time.slack_ms != TIMELINE_OTHERS_CLOCK)
        json_put_i64(json, precision_name, time.slack_ms);
}

static void put_known(struct buffer *json, const char *name, const char *text)
{
    if (text)
        json_put_text(json, name, text);
}

static void put_hold(struct buffer *json, const struct timeline *timeline, size_t index)
{
    const struct timeline_hold *hold = timeline_at(timeline, index);
    json_next(json);
    buffer_append_byte(json, '{');
    json_put_u64(json, "fencing_token", hold->token);
    json_put_text(json, "owner", hold->owner ? hold->owner : hold->holder);
    put_known(json, "holder", hold->holder);
    put_known(json, "mode", hold->mode);
    put_known(json, "scope", hold->scope);
    json_put_text(json, "began", timeline_began_name(timeline, index));
    put_time(json, "began_ms", "began_precision_ms", hold->began);
    if (hold->end != TIMELINE_HELD) {
        json_put_text(json, "ended", timeline_end_name(hold->end));
        put_time(json, "ended_ms", "ended_precision_ms", hold->ended);
        put_known(json, "ended_by", hold->by);
        put_known(json, "reason", hold->reason);
    } else if (hold->expires_ms > 0) {
        json_put_i64(json, "expires_ms", hold->expires_ms);
    }
    buffer_append_byte(json, '}');
}

static void put_gaps(struct buffer *json, const struct timeline *timeline, size_t first)
{
    struct timeline_gap gap;
    json_open(json, "gaps", '[');
    for (size_t at = first; timeline_next_gap(timeline, &at, &gap);) {
        json_next(json);
        buffer_append_byte(json, '{');
        json_put_i64(json, "from_ms", gap.from_ms);
        if (gap.to_ms > 0)
            json_put_i64(json, "to_ms", gap.to_ms);
        json_put_bool(json, "certain", gap.certain);
        buffer_append_byte(json, '}');
    }
    buffer_append_byte(json, ']');
}

static void write_timeline(const struct exchange *exchange, const struct timeline *timeline,
                           size_t first, struct buffer *json)
{
    struct buffer scope = BUFFER_INIT(CORE_RESOURCE_MAX);
    exchange_print_scope(exchange, &scope);
    buffer_append_byte(json, '{');
    json_put_text(json, "namespace", exchange->ask.ns);
    json_put_text(json, "scope", buffer_text(&scope));
    json_put_i64(json, "now_ms", timeline_now_ms(exchange));
    json_put_i64(json, "complete_since_ms", timeline_complete_since(timeline));
    json_put_u64(json, "dropped", timeline_dropped(timeline));
    json_put_i64(json, "read_at_ms", timeline_looked_at(timeline));
    json_open(json, "holds", '[');
    for (size_t i = first; i < timeline_count(timeline); i++)
        put_hold(json, timeline, i);
    buffer_append_byte(json, ']');
    put_gaps(json, timeline, first);
    buffer_append_byte(json, '}');
    buffer_release(&scope);
}

/* A further field of a line (RFC 4180), in quotes, so that it may hold anything. */
static void put_csv_text(struct buffer *csv, const char *text)
{
    buffer_append(csv, VIEW(",\""));
    for (; text && *text; text++)
        buffer_append(csv, *text == '"' ? VIEW("\"\"") : (struct view){ text, 1 });
    buffer_append_byte(csv, '"');
}

static void put_csv_time(struct buffer *csv, struct timeline_time time)
{
    buffer_append_byte(csv, ',');
    if (time.at_ms > 0)
        buffer_append_i64(csv, time.at_ms);
    buffer_append_byte(csv, ',');
    if (time.at_ms > 0 && time.slack_ms != TIMELINE_OTHERS_CLOCK)
        buffer_append_i64(csv, time.slack_ms);
}

static void write_timeline_csv(const struct timeline *timeline, size_t first,
                               struct buffer *csv)
{
    buffer_append(csv, VIEW("fencing_token,owner,holder,mode,began,began_ms,"
                            "began_precision_ms,ended,ended_ms,ended_precision_ms,ended_by,"
                            "reason\r\n"));
    for (size_t i = first; i < timeline_count(timeline); i++) {
        const struct timeline_hold *hold = timeline_at(timeline, i);
        buffer_append_u64(csv, hold->token);
        put_csv_text(csv, hold->owner ? hold->owner : hold->holder);
        put_csv_text(csv, hold->holder);
        put_csv_text(csv, hold->mode);
        put_csv_text(csv, timeline_began_name(timeline, i));
        put_csv_time(csv, hold->began);
        put_csv_text(csv, hold->end == TIMELINE_HELD ? "" : timeline_end_name(hold->end));
        put_csv_time(csv, hold->ended);
        put_csv_text(csv, hold->by);
        put_csv_text(csv, hold->reason);
        buffer_append(csv, VIEW("\r\n"));
    }
}

static void reply_timeline(struct exchange *exchange, const struct timeline *timeline)
{
    const struct ask *ask = &exchange->ask;
    struct buffer body = BUFFER_INIT(API_REPLY_MAX);
    size_t count = timeline_count(timeline);
    size_t limit = ask->limit ? (size_t)ask->limit : TIMELINE_LIMIT;
    size_t first = count > limit ? count - limit : 0;
    if (ask->format && strcmp(ask->format, "csv") == 0) {
        write_timeline_csv(timeline, first, &body);
        if (body.failed)
            exchange_refuse_http(exchange, 503, "unavailable", "out of memory");
        else
            exchange_reply(exchange, 200, "text/csv; charset=utf-8", NULL, 0,
                           buffer_view(&body));
        buffer_release(&body);
        return;
    }
    write_timeline(exchange, timeline, first, &body);
    exchange_reply_json(exchange, 200, &body);
}

/* ---- The route ----------------------------------------------------------------------- */

static enum hf_status verify_timeline(struct exchange *exchange, struct hf_error *error)
{
    const struct ask *ask = &exchange->ask;
    if (!ask->key == !ask->scope)
        return error_set(error, HF_INVALID, "send either 'key' or 'scope'");
    if (ask->format && strcmp(ask->format, "csv") != 0 && strcmp(ask->format, "json") != 0)
        return error_set(error, HF_INVALID, "'format' must be json or csv");
    return HF_OK;
}

/* NULL: the lock has none, or nobody has looked at its table for some time. A look that fails, or
 * whose client hangs up, must not begin one, because it would never be forgotten. */
static const struct timeline *find_fresh_timeline(const struct exchange *exchange)
{
    struct buffer resource = BUFFER_INIT(CORE_RESOURCE_MAX);
    exchange_print_resource(exchange, &resource);
    const struct timeline *timeline =
        resource.failed
            ? NULL
            : timelines_find(exchange->api->events.timelines, buffer_view(&resource));
    buffer_release(&resource);
    if (!timeline)
        return NULL;
    int64_t since_ms = timeline_now_ms(exchange) - timeline_looked_at(timeline);
    return since_ms >= 0 && since_ms < LOOK_EVERY.us / 1000 ? timeline : NULL;
}

static void begin_timeline(struct exchange *exchange)
{
    const struct timeline *timeline = find_fresh_timeline(exchange);
    if (timeline) {
        reply_timeline(exchange, timeline);
        return;
    }
    struct timeline_sight *sight = arena_take(&exchange->ask.arena, sizeof *sight);
    if (!sight) {
        exchange_refuse_http(exchange, 503, "unavailable", "out of memory");
        return;
    }
    sight->arena = &exchange->ask.arena;
    sight->count = 0;
    sight->failed = false;
    exchange->ask.sight = sight;
    exchange_work(exchange, read_lock_table);
}

static void finish_timeline(struct exchange *exchange, const struct core_result *result)
{
    struct buffer resource = BUFFER_INIT(CORE_RESOURCE_MAX);
    struct timeline *timeline = NULL;
    (void)result;
    exchange_print_resource(exchange, &resource);
    if (!resource.failed)
        timeline = timelines_open(exchange->api->events.timelines, buffer_view(&resource));
    if (timeline) {
        merge_sight(exchange, buffer_view(&resource), timeline);
        reply_timeline(exchange, timeline);
    } else {
        exchange_refuse_http(exchange, 503, "unavailable", "out of memory");
    }
    buffer_release(&resource);
}

const struct route timeline_routes[] = {
    { HTTP_VERB_GET, "/v1/timeline", RIGHT_READ, .has_space = true, .reads_body = false,
      verify_timeline, begin_timeline, finish_timeline },
    { 0 },
};
