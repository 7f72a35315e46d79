/* lock_text.c: leases as people and programs read them. */
#include "base/parse.h"
#include "cli/lock.h"
#include "lock/lease_name.h"

#include <inttypes.h>

const char *brief_text(struct span span, char text[SPAN_TEXT_MAX])
{
    int64_t unit = span.us >= 1000000 || span.us <= -1000000 ? 1000000 : 1000;
    return span_text(SPAN_US(span.us / unit * unit), text);
}

const char *lease_state(const struct lease_settings *settings, const struct lease *lease,
                        const struct evidence *evidence)
{
    return hf_lease_state_name(lease_shown_state(settings, lease, evidence));
}

size_t lease_waiters(const struct lease_table *table, const struct lease *lease)
{
    size_t count = 0;
    for (size_t i = 0; i < table->waiter_count; i++)
        count += leases_conflict(table->waiters[i].wanted, lease);
    return count;
}

void append_scopes(struct buffer *to, const struct sight *sight, const struct lease *lease)
{
    char text[SCOPE_TEXT_MAX + 1];
    if (lease->scope_count == 0) {
        buffer_print(to, "everything in %.*s", VIEW_ARGS(sight->key));
        return;
    }
    if (lease->scopes[0].kind == SCOPE_NAMED)
        buffer_append(to, lease->scopes[0].name);
    else
        buffer_append(to, view_of(scope_text(&lease->scopes[0], text)));
    if (lease->scope_count > 1)
        buffer_print(to, " and %zu more", lease->scope_count - 1);
}

void append_barrier(struct buffer *to, const struct lease_settings *settings,
                    const struct evidence *evidence, const struct lease *lease)
{
    char time[TIME_TEXT_MAX], span[SPAN_TEXT_MAX];
    enum lease_proof proof;
    struct mono_time end = lease_provable_at(settings, lease, evidence, &proof);
    struct span left = mono_since(end, evidence->now);
    struct view minute =
        view_first(view_from(view_of(time_text(lease->acquired_at, time)), 11), 5);
    buffer_append(to, VIEW("blocked: "));
    if (view_equal(lease->holder, VIEW(TABLE_REPLACED)))
        buffer_append(to, VIEW("the table was damaged and replaced"));
    else
        escape_append(to, view_first(lease->holder, 60));
    buffer_print(to, " at %.*s UTC; free again ", VIEW_ARGS(minute));
    if (left.us > 0)
        buffer_print(to, "in %s", brief_text(left, span));
    else
        buffer_append(to, VIEW("now"));
}

void append_lease_text(struct buffer *to, const struct sight *sight, const struct lease *lease)
{
    lease_name_append(to, &(struct lease_name){ lease->token, lease->id, sight->key });
}

/* ---- JSON ---------------------------------------------------------------------------- */

static json_t *text_as_json(struct view text)
{
    return json_stringn(text.data, text.size);
}

static json_t *ms_as_json(struct span span)
{
    return json_integer((json_int_t)(span.us / 1000));
}

static json_t *time_as_json(struct wall_time time)
{
    char text[TIME_TEXT_MAX];
    return json_string(time_text(time, text));
}

/* Sets a member unless there is no memory, which output_json tells by then: a lost member makes
 * the whole NULL. */
static void set(json_t **object, const char *name, json_t *value)
{
    if (*object && json_object_set_new(*object, name, value) == 0)
        return;
    json_decref(*object);
    *object = NULL;
}

static json_t *scopes_as_json(const struct lease *lease)
{
    char text[SCOPE_TEXT_MAX + 1];
    json_t *list = json_array();
    for (size_t i = 0; list && i < lease->scope_count; i++)
        json_array_append_new(list, json_string(scope_text(&lease->scopes[i], text)));
    return list;
}

static json_t *takeover_as_json(const struct sight *sight, const struct lease *lease)
{
    enum lease_proof proof;
    struct mono_time at = lease_provable_at(&sight->settings, lease, &sight->evidence, &proof);
    json_t *object = json_object();
    struct span left = mono_since(at, sight->evidence.now);
    set(&object, "in_ms", ms_as_json(left.us > 0 ? left : SPAN_US(0)));
    set(&object, "proof", json_string(lease_proof_name(proof)));
    return object;
}

/* What only a lease has. */
static void set_grant(json_t **object, const struct sight *sight, const struct lease *lease)
{
    set(object, "token", json_integer((json_int_t)lease->token));
    set(object, "renewals", json_integer((json_int_t)lease->renewals));
    set(object, "acquired_at", time_as_json(lease->acquired_at));
    set(object, "held_ms", ms_as_json(lease_held(lease, &sight->evidence)));
    set(object, lease->status == LEASE_ACTIVE ? "expires_at" : "ended_at",
        time_as_json(lease->expires_at));
    if (lease->status != LEASE_ACTIVE)
        return;
    struct buffer text = BUFFER_INIT(HF_LEASE_TEXT_MAX);
    append_lease_text(&text, sight, lease);
    set(object, "lease", text_as_json(buffer_view(&text)));
    buffer_release(&text);
    set(object, "expires_in_ms", ms_as_json(lease_left(lease, &sight->evidence)));
    set(object, "takeover", takeover_as_json(sight, lease));
    set(object, "barrier", json_boolean(lease_is_barrier(lease)));
    size_t waiters = lease_waiters(sight->table, lease);
    set(object, "waiters", json_integer((json_int_t)waiters));
}

json_t *lease_as_json(const struct sight *sight, const struct lease *lease, size_t place)
{
    json_t *object = json_object();
    set(&object, "state",
        json_string(place > 0 ? "waiting"
                              : lease_state(&sight->settings, lease, &sight->evidence)));
    if (place > 0)
        set(&object, "place", json_integer((json_int_t)place));
    set(&object, "scopes", scopes_as_json(lease));
    set(&object, "table", text_as_json(sight->key));
    set(&object, "lease_id", text_as_json(lease->id));
    set(&object, "holder", text_as_json(lease->holder));
    set(&object, "mode", json_string(lease_mode_name(lease->mode)));
    if (lease->mode == LEASE_SLOTS)
        set(&object, "slots", json_integer((json_int_t)lease->slots));
    if (lease->ttl.us > 0)
        set(&object, "ttl_ms", ms_as_json(lease->ttl));
    if (lease->output.size > 0)
        set(&object, "output", text_as_json(lease->output));
    if (lease->note.size > 0)
        set(&object, "note",
            json_loadb(lease->note.data, lease->note.size, JSON_DECODE_ANY, NULL));
    if (place == 0)
        set_grant(&object, sight, lease);
    return object;
}
