/* lease.c: a lease and its JSON: encoding and decoding side by side. */
#include "lease/lease.h"

#include "base/check.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *const status_names[] = {
    [LEASE_ACTIVE] = "active",     [LEASE_COMPLETED] = "completed", [LEASE_FAILED] = "failed",
    [LEASE_RELEASED] = "released", [LEASE_EXPIRED] = "expired",     [LEASE_BROKEN] = "broken",
};
#define STATUSES (sizeof status_names / sizeof status_names[0])

static const char *const mode_names[] = {
    [LEASE_EXCLUSIVE] = "exclusive",
    [LEASE_SHARED] = "shared",
    [LEASE_SLOTS] = "slots",
};
#define MODES (sizeof mode_names / sizeof mode_names[0])

const char *lease_status_name(enum lease_status status)
{
    return status_names[status];
}

const char *lease_mode_name(enum lease_mode mode)
{
    return mode_names[mode];
}

/* The index of a name in a table, or the table's size. Programs that write the plain form of
 * these files spell a status with a capital. */
static size_t index_of(struct view name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct view known = view_of(names[i]);
        bool same_tail =
            name.size == known.size && view_equal(view_from(name, 1), view_from(known, 1));
        if (same_tail && (name.data[0] | 0x20) == known.data[0])
            return i;
    }
    return count;
}

/* ---- Encoding ------------------------------------------------------------------------ */

static void write_text(struct buffer *out, const char *name, struct view value)
{
    if (value.size == 0)
        return;
    buffer_print(out, ",\"%s\":", name);
    json_write_string(out, value);
}

static void write_number(struct buffer *out, const char *name, int64_t value)
{
    if (value != 0)
        buffer_print(out, ",\"%s\":%" PRId64, name, value);
}

static void write_time(struct buffer *out, const char *name, struct wall_time time)
{
    char text[TIME_TEXT_MAX];
    if (time.us != 0)
        buffer_print(out, ",\"%s\":\"%s\"", name, time_text(time, text));
}

/* Chunks stand by their names alone, as they always did; all other scopes by their text. */
static void write_scopes(struct buffer *out, const struct lease *lease, bool chunks)
{
    bool first = true;
    char text[SCOPE_TEXT_MAX + 1];
    for (size_t i = 0; i < lease->scope_count; i++) {
        const struct scope *scope = &lease->scopes[i];
        if ((scope->kind == SCOPE_CHUNK) != chunks)
            continue;
        buffer_print(out, first ? ",\"%s\":[" : ",", chunks ? "chunks" : "scopes");
        json_write_string(out, chunks ? scope->name : view_of(scope_text(scope, text)));
        first = false;
    }
    if (!first)
        buffer_append_byte(out, ']');
}

static void write_standing(struct buffer *out, const struct lease *lease)
{
    write_text(out, "session", lease->session);
    buffer_print(out, ",\"mode\":\"%s\"", mode_names[lease->mode]);
    buffer_print(out, ",\"token\":%" PRIu64 ",\"level\":%" PRIu64, lease->token, lease->level);
    buffer_print(out, ",\"status\":\"%s\"", status_names[lease->status]);
}

static void encode(const struct lease *lease, struct buffer *out)
{
    bool waits = lease->poll.us > 0;
    buffer_append(out, VIEW("{\"lease_id\":"));
    json_write_string(out, lease->id);
    write_text(out, "holder_id", lease->holder);
    write_scopes(out, lease, /* chunks */ true);
    write_scopes(out, lease, /* chunks */ false);
    if (!waits)
        write_standing(out, lease);
    else if (lease->mode != LEASE_EXCLUSIVE)
        write_text(out, "mode", view_of(mode_names[lease->mode]));
    if (waits)
        write_number(out, "level", (int64_t)lease->level);
    write_number(out, "poll_ms", lease->poll.us / 1000);
    write_number(out, "slots", (int64_t)lease->slots);
    write_number(out, "ttl_ms", lease->ttl.us / 1000);
    write_number(out, "renewals", (int64_t)lease->renewals);
    write_text(out, "clock", lease->clock);
    write_number(out, "expires_us", lease->expires.us);
    write_number(out, "ended_us", lease->ended.us);
    write_text(out, "nonce", lease->nonce);
    write_time(out, "acquired_at", lease->acquired_at);
    write_time(out, "expires_at", lease->expires_at);
    write_text(out, "output", lease->output);
    if (lease->note.size > 0) {
        buffer_append(out, VIEW(",\"note\":"));
        buffer_append(out, lease->note);
    }
    buffer_append(out, lease->unknown);
    buffer_append_byte(out, '}');
}

enum hf_status lease_new(const struct lease *fields, struct lease **ret_lease,
                         struct hf_error *error)
{
    struct buffer out = BUFFER_INIT(LEASE_BYTES_MAX);
    encode(fields, &out);
    if (out.failed) {
        bool too_long = out.size + KEY_BYTES_MAX > LEASE_BYTES_MAX;
        buffer_release(&out);
        return too_long ? error_set(error, HF_INVALID, "a lease has at most %zu bytes",
                                    LEASE_BYTES_MAX)
                        : error_no_memory(error);
    }
    enum hf_status status = lease_decode(fields->id, buffer_view(&out), ret_lease, error);
    buffer_release(&out);
    if (status == HF_CORRUPT) /* the fields are at fault, not the store */
        return error_set(error, HF_INVALID, "%s", error ? error->why : "");
    if (status == HF_OK)
        (*ret_lease)->seen = fields->seen;
    return status;
}

/* ---- Decoding ------------------------------------------------------------------------ */

static void take_text(struct json_reader *reader, struct lease *lease, size_t max,
                      struct view *ret_text)
{
    struct view text;
    if (!json_take_text(reader, &lease->unescaped, &text))
        return;
    if (text.size > max)
        json_fail(reader, "a text that is too long");
    else
        *ret_text = text;
}

static size_t take_name(struct json_reader *reader, const char *const *names, size_t count)
{
    struct view text = VIEW("");
    if (!json_take_plain(reader, &text))
        return 0;
    size_t index = text.size > 0 ? index_of(text, names, count) : count;
    if (index == count)
        json_fail(reader, "an unknown word");
    return index < count ? index : 0;
}

static void take_span_ms(struct json_reader *reader, struct span *ret_span)
{
    uint64_t ms;
    if (json_take_u64(reader, INT64_MAX / 4000, &ms))
        *ret_span = SPAN_MS(ms);
}

static void take_wall(struct json_reader *reader, struct wall_time *ret_time)
{
    struct view text;
    if (json_take_plain(reader, &text) && parse_time(text, ret_time, NULL) != HF_OK)
        json_fail(reader, "a bad time");
}

static bool add_scope(struct json_reader *reader, struct lease *lease,
                      const struct scope *scope)
{
    if (lease->scope_count == LEASE_SCOPES_MAX)
        return json_fail(reader, "too many scopes");
    if ((lease->scope_count & (lease->scope_count + 1)) == 0 || lease->scope_count == 0) {
        size_t room = lease->scope_count ? 2 * lease->scope_count + 2 : 1;
        struct scope *more = realloc(lease->scopes, room * sizeof *more);
        if (!more) {
            lease->unescaped.failed = true; /* as any other lack of memory */
            return json_fail(reader, "out of memory");
        }
        lease->scopes = more;
    }
    lease->scopes[lease->scope_count++] = *scope;
    return true;
}

static void take_scopes(struct json_reader *reader, struct lease *lease, bool chunks)
{
    for (json_enter_array(reader); json_next_element(reader);) {
        struct view text = VIEW("");
        struct scope scope = { .kind = SCOPE_CHUNK };
        take_text(reader, lease, SCOPE_TEXT_MAX, &text);
        scope.name = text;
        if (!chunks && scope_parse(text, &scope, NULL) != HF_OK)
            json_fail(reader, "a bad scope");
        else if (!reader->why)
            add_scope(reader, lease, &scope);
    }
}

/* A moment that sums can be made of. */
static void take_store_time(struct json_reader *reader, struct store_time *ret_time)
{
    int64_t us;
    if (!json_take_i64(reader, &us))
        return;
    if (us < -MOMENT_FAR || us > MOMENT_FAR)
        json_fail(reader, "a moment out of bounds");
    else
        ret_time->us = us;
}

static void take_note(struct json_reader *reader, struct view *ret_note)
{
    struct view raw;
    if (!json_skip(reader, &raw))
        return;
    if (raw.size > NOTE_BYTES_MAX)
        json_fail(reader, "a note that is too long");
    else
        *ret_note = raw;
}

/* One member whose name we know; false for another. */
static bool take_member(struct json_reader *r, struct view name, struct lease *lease)
{
    if (view_equal(name, VIEW("lease_id")))
        take_text(r, lease, HOLDER_BYTES_MAX, &lease->id);
    else if (view_equal(name, VIEW("holder_id")))
        take_text(r, lease, HOLDER_BYTES_MAX, &lease->holder);
    else if (view_equal(name, VIEW("session")))
        take_text(r, lease, NONCE_SIZE, &lease->session);
    else if (view_equal(name, VIEW("nonce")))
        take_text(r, lease, NONCE_SIZE, &lease->nonce);
    else if (view_equal(name, VIEW("clock")))
        take_text(r, lease, CLOCK_ID_MAX, &lease->clock);
    else if (view_equal(name, VIEW("output")))
        take_text(r, lease, OUTPUT_BYTES_MAX, &lease->output);
    else if (view_equal(name, VIEW("chunks")))
        take_scopes(r, lease, /* chunks */ true);
    else if (view_equal(name, VIEW("scopes")))
        take_scopes(r, lease, /* chunks */ false);
    else if (view_equal(name, VIEW("mode")))
        lease->mode = (enum lease_mode)take_name(r, mode_names, MODES);
    else if (view_equal(name, VIEW("status")))
        lease->status = (enum lease_status)take_name(r, status_names, STATUSES);
    else if (view_equal(name, VIEW("slots")))
        json_take_u64(r, UINT32_MAX, &lease->slots);
    else if (view_equal(name, VIEW("token")))
        json_take_u64(r, (UINT64_C(1) << 53) - 1, &lease->token);
    else if (view_equal(name, VIEW("level")))
        json_take_u64(r, UINT32_MAX, &lease->level);
    else if (view_equal(name, VIEW("renewals")))
        json_take_u64(r, INT64_MAX, &lease->renewals);
    else if (view_equal(name, VIEW("ttl_ms")))
        take_span_ms(r, &lease->ttl);
    else if (view_equal(name, VIEW("poll_ms")))
        take_span_ms(r, &lease->poll);
    else if (view_equal(name, VIEW("expires_us")))
        take_store_time(r, &lease->expires);
    else if (view_equal(name, VIEW("ended_us")))
        take_store_time(r, &lease->ended);
    else if (view_equal(name, VIEW("acquired_at")))
        take_wall(r, &lease->acquired_at);
    else if (view_equal(name, VIEW("expires_at")))
        take_wall(r, &lease->expires_at);
    else if (view_equal(name, VIEW("note")))
        take_note(r, &lease->note);
    else
        return false;
    return true;
}

/* Keeps a member that we do not know: the comma, its name and its value, as they stand. */
static void keep_unknown(struct json_reader *reader, struct view name, struct buffer *unknown)
{
    struct view raw;
    if (!json_skip(reader, &raw))
        return;
    buffer_append(unknown, VIEW(",\""));
    buffer_append(unknown, name);
    buffer_append(unknown, VIEW("\":"));
    buffer_append(unknown, raw);
}

static void read_members(struct json_reader *reader, struct lease *lease,
                         struct buffer *unknown)
{
    struct view name;
    for (json_enter_object(reader); json_next_member(reader, &name);)
        if (!take_member(reader, name, lease))
            keep_unknown(reader, name, unknown);
    json_end(reader);
    if (lease->clock.size > 0 && lease->expires.us == 0 && lease->status == LEASE_ACTIVE)
        json_fail(reader, "a clock, and no end on it");
}

enum hf_status lease_decode(struct view name, struct view bytes, struct lease **ret_lease,
                            struct hf_error *error)
{
    if (bytes.size > LEASE_BYTES_MAX)
        return error_set(error, HF_CORRUPT, "a lease of %zu bytes", bytes.size);
    struct lease *lease = malloc(sizeof *lease + bytes.size);
    if (!lease)
        return error_no_memory(error);
    char *copy = (char *)(lease + 1);
    memcpy(copy, bytes.data, bytes.size);
    *lease = (struct lease){ .bytes = { copy, bytes.size } };

    /* Reserved in whole, so that views into it stay where they are. Undoing escapes shortens,
     * and what is unknown is a part of the bytes. */
    struct buffer unknown = BUFFER_INIT(bytes.size);
    lease->unescaped = BUFFER_INIT(2 * bytes.size);
    bool plain = memchr(bytes.data, '\\', bytes.size) == NULL;
    struct json_reader reader = json_read(lease->bytes);
    if (plain || buffer_reserve(&lease->unescaped, 2 * bytes.size))
        read_members(&reader, lease, &unknown);
    if (unknown.size > 0 && buffer_reserve(&lease->unescaped, unknown.size)) {
        lease->unknown.data = lease->unescaped.data + lease->unescaped.size;
        lease->unknown.size = unknown.size;
        buffer_append(&lease->unescaped, buffer_view(&unknown));
    }
    bool no_memory = unknown.failed || lease->unescaped.failed;
    buffer_release(&unknown);
    if (lease->session.size == 0 && lease->poll.us > 0)
        lease->session = view_first(lease->id, view_find(lease->id, '-'));
    if (!no_memory && !reader.why && lease->id.size > 0 &&
        (!name.data || view_equal(lease->id, name))) {
        *ret_lease = lease;
        return HF_OK;
    }
    const char *why = reader.why ? reader.why : "its name and its id differ";
    lease_free(lease);
    return no_memory ? error_no_memory(error)
                     : error_set(error, HF_CORRUPT, "lease %.*s: %s",
                                 VIEW_ARGS(view_first(name, 60)), why);
}

void lease_free(struct lease *lease)
{
    if (!lease)
        return;
    free(lease->scopes);
    buffer_release(&lease->unescaped);
    free(lease);
}

/* ---- Comparing ----------------------------------------------------------------------- */

bool lease_unchanged(const struct lease *a, const struct lease *b)
{
    return view_equal(a->id, b->id) && a->renewals == b->renewals && a->token == b->token &&
           view_equal(a->nonce, b->nonce) && a->status == b->status;
}

bool leases_conflict(const struct lease *a, const struct lease *b)
{
    if (a->scope_count == 0 || b->scope_count == 0)
        return true;
    if (a->mode == LEASE_SHARED && b->mode == LEASE_SHARED)
        return false;
    for (size_t i = 0; i < a->scope_count; i++)
        for (size_t k = 0; k < b->scope_count; k++)
            if (scope_conflicts(&a->scopes[i], &b->scopes[k]))
                return true;
    return false;
}
