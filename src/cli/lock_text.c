/* lock_text.c: leases as people and programs read them. */
#include "base/parse.h"
#include "cli/json_add.h"
#include "cli/lock.h"

#include <inttypes.h>

const char *brief_text(struct span span, char text[SPAN_TEXT_MAX])
{
    int64_t unit = span.us >= 1000000 || span.us <= -1000000 ? 1000000 : 1000;
    return span_text(SPAN_US(span.us / unit * unit), text);
}

bool lease_is_active(const struct hf_lease_info *lease)
{
    return lease->state == HF_LEASE_ACTIVE || lease->state == HF_LEASE_OVERDUE ||
           lease->state == HF_LEASE_OVER;
}

void append_scopes(struct buffer *to, const struct hf_lease_info *lease)
{
    if (lease->scope_count == 0) {
        buffer_print(to, "everything in %s", lease->table);
        return;
    }
    struct view first = view_of(lease->scopes[0]);
    bool named = view_starts_with(first, VIEW("named:"));
    buffer_append(to, named ? view_from(first, strlen("named:")) : first);
    if (lease->scope_count > 1)
        buffer_print(to, " and %zu more", lease->scope_count - 1);
}

void append_barrier_words(struct buffer *to, struct view holder, struct wall_time since,
                          struct span left)
{
    char time[TIME_TEXT_MAX], span[SPAN_TEXT_MAX];
    struct view minute = view_first(view_from(view_of(time_text(since, time)), 11), 5);
    buffer_append(to, VIEW("blocked: "));
    if (view_equal(holder, VIEW(HF_TABLE_REPLACED)))
        buffer_append(to, VIEW("the table was damaged and replaced"));
    else
        escape_append(to, view_first(holder, 60));
    buffer_print(to, " at %.*s UTC; free again ", VIEW_ARGS(minute));
    if (left.us > 0)
        buffer_print(to, "in %s", brief_text(left, span));
    else
        buffer_append(to, VIEW("now"));
}

void append_barrier(struct buffer *to, const struct hf_lease_info *lease)
{
    append_barrier_words(to, view_of(lease->holder),
                         (struct wall_time){ lease->acquired_at_ms * 1000 },
                         SPAN_MS(lease->takeover_ms));
}

/* ---- JSON ---------------------------------------------------------------------------- */

static void add_ms(json_t **object, const char *name, int64_t ms)
{
    json_add(object, name, json_integer((json_int_t)ms));
}

static json_t *scopes_as_json(const struct hf_lease_info *lease)
{
    json_t *list = json_array();
    for (size_t i = 0; i < lease->scope_count; i++)
        json_push(&list, json_string(lease->scopes[i]));
    return list;
}

static json_t *takeover_as_json(const struct hf_lease_info *lease)
{
    json_t *object = json_object();
    add_ms(&object, "in_ms", lease->takeover_ms);
    json_add(&object, "proof", json_string(hf_proof_name(lease->takeover_by)));
    return object;
}

/* What only a lease has. */
static void add_grant(json_t **object, const struct hf_lease_info *lease)
{
    bool active = lease_is_active(lease);
    json_add_count(object, "token", lease->token);
    json_add_count(object, "renewals", lease->renewals);
    json_add_time_ms(object, "acquired_at", lease->acquired_at_ms);
    add_ms(object, "held_ms", lease->held_ms);
    json_add_time_ms(object, active ? "expires_at" : "ended_at", lease->ends_at_ms);
    if (!active)
        return;
    json_add(object, "lease", json_string(lease->lease));
    add_ms(object, "expires_in_ms", lease->remaining_ms);
    json_add(object, "takeover", takeover_as_json(lease));
    json_add_bool(object, "barrier", lease->barrier);
    json_add_count(object, "waiters", lease->waiters);
}

json_t *lease_as_json(const struct hf_lease_info *lease, size_t place)
{
    json_t *object = json_object();
    json_add(&object, "state", json_string(hf_lease_state_name(lease->state)));
    if (place > 0)
        json_add_count(&object, "place", place);
    json_add(&object, "scopes", scopes_as_json(lease));
    json_add(&object, "table", json_string(lease->table));
    json_add(&object, "lease_id", json_string(lease->id));
    json_add(&object, "holder", json_string(lease->holder));
    json_add(&object, "mode", json_string(hf_mode_name(lease->mode)));
    if (lease->mode == HF_SLOTS)
        json_add_count(&object, "slots", lease->slots);
    if (lease->ttl_ms > 0)
        add_ms(&object, "ttl_ms", lease->ttl_ms);
    if (lease->output[0])
        json_add(&object, "output", json_string(lease->output));
    if (lease->note[0])
        json_add(&object, "note", json_loads(lease->note, JSON_DECODE_ANY, NULL));
    if (place == 0)
        add_grant(&object, lease);
    return object;
}
