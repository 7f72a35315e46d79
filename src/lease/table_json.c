/* table_json.c: a table as JSON: encoding and decoding side by side. */
#include "lease/table.h"

#include "base/check.h"
#include "base/json.h"
#include "base/rule.h"
#include "lease/table_inside.h"

#include <stdlib.h>

/* ---- Encoding ------------------------------------------------------------------------ */

static void write_reserved(const struct lease_table *table, struct buffer *text)
{
    bool first = true;
    buffer_append(text, VIEW(",\"reserved\":["));
    for (size_t i = 0; i < table->waiter_count; i++) {
        if (!table->waiters[i].reserved)
            continue;
        if (!first)
            buffer_append_byte(text, ',');
        json_write_string(text, table->waiters[i].wanted->id);
        first = false;
    }
    buffer_append_byte(text, ']');
}

static void write_number(struct buffer *text, struct view before, int64_t number)
{
    buffer_append(text, before);
    buffer_append_i64(text, number);
}

static void write_limit(const struct ttl_limit *limit, struct buffer *text)
{
    char until[STAMP_TEXT_MAX];
    if (limit->ttl.us == 0)
        return;
    write_number(text, VIEW(",\"limit_ms\":"), limit->ttl.us / 1000);
    buffer_append(text, VIEW(",\"limit_until\":\""));
    buffer_append(text, view_of(stamp_text(limit->until, until)));
    buffer_append_byte(text, '"');
}

static void write_settings(const struct lease_table *table, struct buffer *text)
{
    const struct lease_settings *settings = &table->settings;
    write_number(text, VIEW(",\n\"settings\":{\"drift_ppm\":"), settings->drift_ppm);
    write_number(text, VIEW(",\"margin_ms\":"), settings->margin.us / 1000);
    write_number(text, VIEW(",\"skew_ms\":"), settings->skew_tolerance.us / 1000);
    write_number(text, VIEW(",\"ttl_max_ms\":"), settings->ttl_max.us / 1000);
    write_number(text, VIEW(",\"late_ms\":"), settings->late_bound.us / 1000);
    buffer_append(text, VIEW(",\"takeover\":"));
    buffer_append(text, settings->watch_only ? VIEW("\"observed\"") : VIEW("\"any\""));
    write_limit(&table->limit, text);
    buffer_append(text, buffer_view(&table->unknown_settings));
    buffer_append_byte(text, '}');
}

/* The first one of a list goes without its comma. */
static void write_entry(struct buffer *text, const struct lease *lease, bool first)
{
    buffer_append(text, view_from(lease->entry, first));
}

bool table_encode(const struct lease_table *table, struct view nonce, struct buffer *text)
{
    check(!table->adopted);
    buffer_reserve(text, table->bytes + KIB_OF_HEADER + table->unknown.size +
                             table->unknown_settings.size);
    buffer_append(text, VIEW("{\"format\":\"" TABLE_FORMAT "\",\"next_token\":"));
    buffer_append_u64(text, table->next_token);
    buffer_append(text, VIEW(",\"write\":\""));
    buffer_append(text, nonce);
    buffer_append_byte(text, '"');
    write_reserved(table, text);
    write_settings(table, text);
    if (table->missed > 0)
        write_number(text, VIEW(",\"missed\":"), table->missed);
    if (table->of_shard)
        face_write(table, text);
    if (table->state.size > 0) {
        buffer_append(text, VIEW(",\n\"state\":"));
        buffer_append(text, buffer_view(&table->state));
    }
    buffer_append(text, VIEW(",\n\"leases\":{"));
    for (size_t i = 0; i < table->lease_count; i++)
        write_entry(text, table->leases[i], i == 0);
    buffer_append_byte(text, '}');
    if (table->wanted) {
        buffer_append(text, VIEW(",\n\"wanted\":"));
        buffer_append(text, table->wanted->bytes);
    }
    buffer_append(text, VIEW(",\n\"waiters\":["));
    for (size_t i = 0; i < table->waiter_count; i++)
        write_entry(text, table->waiters[i].wanted, i == 0);
    buffer_append(text, VIEW("],\n\"audit\":["));
    for (size_t i = 0; i < table->audit_count; i++) {
        buffer_append(text, i ? VIEW(",\n") : VIEW("\n"));
        buffer_append(text, table->audit[i]);
    }
    buffer_append_byte(text, ']');
    buffer_append(text, buffer_view(&table->unknown));
    return buffer_append(text, VIEW("}\n"));
}

/* ---- What was known before ----------------------------------------------------------- */

/* Entries keep their order, so what is looked for stands mostly right where the search for the
 * one before it ended; further on only when a few in between are gone. */
#define LOOK_AHEAD 32

struct known {
    const struct lease_table *table; /* the one before, or NULL */
    size_t lease_next, waiter_next;  /* where the searches go on */
    struct ids ids;                  /* made when it is first needed */
};

/* False without memory. */
static bool have_ids(struct known *known)
{
    bool unique;
    return known->ids.slots || ids_init(&known->ids, known->table, &unique);
}

/* The lease of this id as it stood before, or NULL. False without memory. */
static bool find_lease_before(struct known *known, struct view id, struct lease **ret_lease)
{
    const struct lease_table *table = known->table;
    size_t count = table ? table->lease_count : 0, at = NOWHERE;
    *ret_lease = NULL;
    for (size_t i = 0; at == NOWHERE && i < count && i < LOOK_AHEAD; i++) {
        size_t next = (known->lease_next + i) % count;
        if (view_equal(table->leases[next]->id, id))
            at = next;
    }
    if (at == NOWHERE && count > LOOK_AHEAD) {
        if (!have_ids(known))
            return false;
        at = ids_lease(&known->ids, id);
    }
    if (at == NOWHERE)
        return true;
    known->lease_next = at + 1;
    *ret_lease = table->leases[at];
    return true;
}

/* Takes the next value when it is one who waited before; `wanted` is what those want now who do
 * not say. */
static struct lease *take_waiter_before(struct known *known, struct json_reader *reader,
                                        const struct lease *wanted)
{
    const struct lease_table *table = known->table;
    for (size_t i = 0; table && i < LOOK_AHEAD; i++) {
        size_t at = known->waiter_next + i;
        if (at >= table->waiter_count)
            return NULL;
        struct lease *before = table->waiters[at].wanted;
        bool same_wish = !before->like || before->like == wanted;
        if (same_wish && json_take_same(reader, before->bytes)) {
            known->waiter_next = at + 1;
            return before;
        }
    }
    return NULL;
}

/* Where it waited before, or NOWHERE; `near` is where it might have. False without memory. */
static bool find_waiter_before(struct known *known, struct view id, size_t near,
                               size_t *ret_index)
{
    const struct lease_table *table = known->table;
    size_t count = table ? table->waiter_count : 0;
    *ret_index = NOWHERE;
    for (size_t i = 0; i < count && i < LOOK_AHEAD; i++) {
        size_t at = (near + i) % count;
        if (view_equal(table->waiters[at].wanted->id, id)) {
            *ret_index = at;
            return true;
        }
    }
    if (count > LOOK_AHEAD) {
        if (!have_ids(known))
            return false;
        *ret_index = ids_waiter(&known->ids, id);
    }
    return true;
}

/* ---- Decoding ------------------------------------------------------------------------ */

/* Members of a table that may stand once; all others are kept as they are. */
enum member {
    FORMAT,
    NEXT_TOKEN,
    WRITE,
    RESERVED,
    SETTINGS,
    MISSED,
    STATE,
    LEASES,
    WANTED,
    WAITERS,
    AUDIT,
    WORKER_ID, /* this and the next two: of the lock of a shard */
    CREATED_AT,
    EXPIRES_AT,
    UNKNOWN,
};

static const struct view member_names[UNKNOWN] = {
    [FORMAT] = { "format", 6 },
    [NEXT_TOKEN] = { "next_token", 10 },
    [WRITE] = { "write", 5 },
    [RESERVED] = { "reserved", 8 },
    [SETTINGS] = { "settings", 8 },
    [MISSED] = { "missed", 6 },
    [STATE] = { "state", 5 },
    [LEASES] = { "leases", 6 },
    [WANTED] = { "wanted", 6 },
    [WAITERS] = { "waiters", 7 },
    [AUDIT] = { "audit", 5 },
    [WORKER_ID] = { "worker_id", 9 },
    [CREATED_AT] = { "created_at", 10 },
    [EXPIRES_AT] = { "expires_at", 10 },
};

/* What a decoding has besides the table that it fills. */
struct decoding {
    struct json_reader reader;
    struct lease_table *table;
    struct known known;
    struct mono_time arrived;
    unsigned found; /* members, as bits */
    struct view format;
    bool no_memory;                /* says nothing about the document */
    bool later;                    /* a later version's words stand in it */
    struct view reserved, waiters; /* as they stand, to be read when the rest has been */
    struct view face[FACE_MEMBERS];
    struct hf_error *error;
};

static bool has(const struct decoding *d, enum member member)
{
    return d->found >> member & 1;
}

static bool out_of_memory(struct decoding *d)
{
    d->no_memory = true;
    return json_fail(&d->reader, "out of memory");
}

/* A part could not be read: the whole cannot. */
static bool bad_part(struct decoding *d, enum hf_status status)
{
    d->later = d->later || (status == HF_UNSUPPORTED && !d->reader.why);
    return status == HF_UNAVAILABLE ? out_of_memory(d) : json_fail(&d->reader, d->error->why);
}

/* Adds an entry, which is taken over or freed. */
static void add_entry(struct decoding *d, struct lease *lease, bool waits)
{
    bool fits = waits ? d->table->waiter_count < TABLE_WAITERS_MAX
                      : d->table->lease_count < TABLE_LEASES_READ_MAX;
    bool added =
        fits && (waits ? table_add_waiter(d->table, lease) : table_add_lease(d->table, lease));
    if (added)
        return;
    lease_free(lease);
    if (fits)
        out_of_memory(d);
    else
        json_fail(&d->reader, "more leases than can be");
}

/* Sightings: what stands unchanged was seen since the first reply that showed it. */
static void add_lease_since(struct decoding *d, struct lease *lease, const struct lease *before)
{
    lease->seen = before && lease_unchanged(before, lease) ? before->seen : d->arrived;
    add_entry(d, lease, /* waits */ false);
}

static void decode_lease(struct decoding *d, struct view name)
{
    struct lease *before, *lease;
    struct view raw;
    if (!find_lease_before(&d->known, name, &before)) {
        out_of_memory(d);
        return;
    }
    if (before && json_take_same(&d->reader, before->bytes)) {
        add_entry(d, lease_share(before), /* waits */ false);
        return;
    }
    if (!json_skip(&d->reader, &raw))
        return;
    enum hf_status status = lease_decode(name, raw, &lease, d->error);
    if (status != HF_OK) {
        bad_part(d, status);
        return;
    }
    add_lease_since(d, lease, before);
}

static void decode_leases(struct decoding *d)
{
    struct view name;
    for (json_enter_object(&d->reader); json_next_member(&d->reader, &name);)
        decode_lease(d, name);
}

static void decode_waiter(struct decoding *d)
{
    struct lease *lease = take_waiter_before(&d->known, &d->reader, d->table->wanted);
    struct view raw;
    if (lease) {
        add_entry(d, lease_share(lease), /* waits */ true);
        return;
    }
    if (!json_skip(&d->reader, &raw))
        return;
    enum hf_status status = waiter_decode(raw, d->table->wanted, &lease, d->error);
    if (status != HF_OK) {
        bad_part(d, status);
        return;
    }
    /* More are gone than a search looks over: it goes on behind this one. */
    size_t before = NOWHERE;
    bool lost = d->known.table && d->known.waiter_next < d->known.table->waiter_count;
    if (lost && !find_waiter_before(&d->known, lease->id, d->known.waiter_next, &before))
        out_of_memory(d);
    if (before != NOWHERE)
        d->known.waiter_next = before + 1;
    add_entry(d, lease, /* waits */ true);
}

static void decode_waiters(struct decoding *d)
{
    for (json_enter_array(&d->reader); json_next_element(&d->reader);)
        decode_waiter(d);
}

static void decode_wanted(struct decoding *d)
{
    struct lease *before = d->known.table ? d->known.table->wanted : NULL;
    struct view raw;
    if (before && json_take_same(&d->reader, before->bytes)) {
        table_set_wanted(d->table, lease_share(before));
        return;
    }
    if (!json_skip(&d->reader, &raw))
        return;
    struct lease *wanted;
    enum hf_status status = wanted_decode(raw, &wanted, d->error);
    if (status == HF_OK)
        table_set_wanted(d->table, wanted);
    else
        bad_part(d, status);
}

static void decode_audit(struct decoding *d)
{
    struct view raw;
    for (json_enter_array(&d->reader); json_next_element(&d->reader);)
        if (json_skip(&d->reader, &raw) && !table_add_audit(d->table, raw))
            out_of_memory(d);
}

/* What it means is for src/key to say; here it is an object of some size. */
static void decode_state(struct decoding *d)
{
    struct view raw;
    if (json_peek(&d->reader) != JSON_KIND_OBJECT || !json_skip(&d->reader, &raw) ||
        raw.size > TABLE_STATE_MAX) {
        json_fail(&d->reader, "a state that cannot be one");
        return;
    }
    if (buffer_reserve(&d->table->state, raw.size))
        table_set_state(d->table, raw);
    else
        out_of_memory(d);
}

static void take_ms(struct json_reader *reader, struct span *ret_span)
{
    uint64_t ms;
    if (json_take_u64(reader, INT64_MAX / 4000, &ms))
        *ret_span = SPAN_MS(ms);
}

/* Keeps a member that we do not know, as it stands, with a comma before it. */
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

static void decode_settings(struct decoding *d)
{
    struct json_reader *r = &d->reader;
    struct lease_table *table = d->table;
    struct lease_settings *settings = &table->settings;
    struct view name, word = VIEW("any");
    uint64_t number;
    bool until_known = false;
    for (json_enter_object(r); json_next_member(r, &name);) {
        if (view_equal(name, VIEW("drift_ppm"))) {
            if (json_take_u64(r, 500000, &number))
                settings->drift_ppm = (uint32_t)number;
        } else if (view_equal(name, VIEW("margin_ms"))) {
            take_ms(r, &settings->margin);
        } else if (view_equal(name, VIEW("skew_ms"))) {
            take_ms(r, &settings->skew_tolerance);
        } else if (view_equal(name, VIEW("ttl_max_ms"))) {
            take_ms(r, &settings->ttl_max);
        } else if (view_equal(name, VIEW("late_ms"))) {
            take_ms(r, &settings->late_bound);
        } else if (view_equal(name, VIEW("takeover"))) {
            json_take_plain(r, &word);
            settings->watch_only = view_equal(word, VIEW("observed"));
            if (!r->why && !settings->watch_only && !view_equal(word, VIEW("any"))) {
                d->later = true;
                json_fail(r, "an unknown way of taking over: upgrade");
            }
        } else if (view_equal(name, VIEW("limit_ms"))) {
            take_ms(r, &table->limit.ttl);
        } else if (view_equal(name, VIEW("limit_until"))) {
            until_known = json_take_plain(r, &word) && stamp_parse(word, &table->limit.until);
        } else {
            keep_unknown(r, name, &table->unknown_settings);
        }
    }
    if (!until_known)
        table->limit = (struct ttl_limit){ .ttl = SPAN_US(0) };
}

static enum member member_of(const struct lease_table *table, struct view name)
{
    unsigned member = 0, end = table->of_shard ? UNKNOWN : WORKER_ID;
    while (member < end && !view_equal(name, member_names[member]))
        member++;
    return member < end ? (enum member)member : UNKNOWN;
}

static void decode_member(struct decoding *d, struct view name)
{
    struct json_reader *r = &d->reader;
    struct view raw;
    uint64_t number;
    enum member member = member_of(d->table, name);
    if (member < UNKNOWN && has(d, member))
        json_fail(r, "a member that stands twice");
    d->found |= 1u << member;
    switch (member) {
    case FORMAT: json_take_plain(r, &d->format); break;
    case NEXT_TOKEN: json_take_u64(r, TOKEN_MAX, &d->table->next_token); break;
    case WRITE: json_skip(r, &raw); break;
    case RESERVED: json_skip(r, &d->reserved); break;
    case SETTINGS: decode_settings(d); break;
    case MISSED:
        if (json_take_u64(r, MISSED_MAX, &number))
            d->table->missed = (unsigned)number;
        break;
    case STATE: decode_state(d); break;
    case LEASES: decode_leases(d); break;
    case WANTED: decode_wanted(d); break;
    case WAITERS:
        if (has(d, WANTED)) /* as we write them; others may sort */
            decode_waiters(d);
        else
            json_skip(r, &d->waiters);
        break;
    case AUDIT: decode_audit(d); break;
    case WORKER_ID:
    case CREATED_AT:
    case EXPIRES_AT: json_skip(r, &d->face[member - WORKER_ID]); break;
    case UNKNOWN: keep_unknown(r, name, &d->table->unknown); break;
    }
}

/* Waiters that stood before what they want. */
static void decode_waiters_late(struct decoding *d)
{
    struct json_reader whole = d->reader;
    if (whole.why || d->waiters.size == 0)
        return;
    d->reader = json_read(d->waiters);
    decode_waiters(d);
    json_end(&d->reader);
    if (d->reader.why)
        json_fail(&whole, d->reader.why);
    d->reader = whole;
}

/* A file of another program that has a face and nothing else of ours is one lease. */
static void decode_face(struct decoding *d)
{
    struct lease *before, *lease;
    if (d->reader.why || !d->table->of_shard)
        return;
    if (has(d, FORMAT) || has(d, LEASES) || !has(d, WORKER_ID)) {
        if (!face_read(d->table, d->face))
            out_of_memory(d);
        return;
    }
    enum hf_status status = face_lease(d->face, &lease, d->error);
    if (status != HF_OK) {
        bad_part(d, status);
        return;
    }
    d->found |= 1u << LEASES;
    if (!find_lease_before(&d->known, lease->id, &before)) {
        lease_free(lease);
        out_of_memory(d);
        return;
    }
    add_lease_since(d, lease, before);
}

static void mark_reserved(struct decoding *d, const struct ids *ids)
{
    struct json_reader reader = json_read(d->reserved);
    struct view id;
    for (json_enter_array(&reader); json_next_element(&reader);) {
        size_t at = json_take_plain(&reader, &id) ? ids_waiter(ids, id) : NOWHERE;
        if (at == NOWHERE)
            continue;
        struct waiter *waiter = &d->table->waiters[at];
        size_t before;
        if (!find_waiter_before(&d->known, id, at, &before)) {
            out_of_memory(d);
            return;
        }
        bool was = before != NOWHERE && d->known.table->waiters[before].reserved &&
                   (!d->known.table->waiters[before].called || !RULE(TURN_SINCE_WRITTEN));
        waiter->reserved = true;
        waiter->reserved_seen =
            was ? d->known.table->waiters[before].reserved_seen : d->arrived;
    }
    if (!json_end(&reader))
        json_fail(&d->reader, reader.why);
}

/* No id may stand twice; those are marked whose turn it is. */
static void decode_ids(struct decoding *d)
{
    struct ids ids;
    bool unique;
    if (d->reader.why)
        return;
    if (!ids_init(&ids, d->table, &unique)) {
        out_of_memory(d);
        return;
    }
    if (!unique)
        json_fail(&d->reader, "an id that stands twice");
    else if (d->reserved.size > 0)
        mark_reserved(d, &ids);
    ids_release(&ids);
}

/* The format line, wherever it stands. A later version may have members of ours that mean
 * something else: they must not make its tables look damaged. */
static struct view format_of(struct view text)
{
    struct json_reader reader = json_read(text);
    struct view name, raw, format = VIEW("");
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, member_names[FORMAT]))
            json_take_plain(&reader, &format);
        else
            json_skip(&reader, &raw);
    }
    return format;
}

static bool is_json(struct view text)
{
    struct json_reader reader = json_read(text);
    struct view raw;
    return json_skip(&reader, &raw) && json_end(&reader);
}

/* What the whole must be besides being JSON of the right types. */
static enum hf_status judge_whole(struct decoding *d)
{
    struct lease_table *table = d->table;
    struct view format = d->reader.why ? format_of(d->reader.text) : d->format;
    if (format.size > 0 && !view_equal(format, VIEW(TABLE_FORMAT)))
        return error_set(d->error, HF_UNSUPPORTED,
                         "its format is %.*s, and this version knows %s: upgrade",
                         VIEW_ARGS(view_first(format, 60)), TABLE_FORMAT);
    if (d->later && !d->no_memory && format.size > 0 && is_json(d->reader.text))
        return error_set(d->error, HF_UNSUPPORTED, "%s", d->reader.why);
    table->adopted = format.size == 0;
    if (!has(d, LEASES))
        json_fail(&d->reader, "it has no leases");
    if (!table->adopted && !has(d, NEXT_TOKEN))
        json_fail(&d->reader, "it has no next_token");
    uint64_t end = table->adopted ? TOKEN_MAX : table->next_token;
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->token >= end)
            json_fail(&d->reader, "a token that was never given");
    if (d->no_memory || table->unknown.failed || table->unknown_settings.failed)
        return error_no_memory(d->error);
    if (d->reader.why)
        return error_set(d->error, HF_CORRUPT, "not a lease table: %s", d->reader.why);
    return HF_OK;
}

/* A table of another program may have given tokens without saying which is next. */
static void finish(struct lease_table *table, struct mono_time arrived)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->token >= table->next_token)
            table->next_token = table->leases[i]->token + 1;
    if (table->waiter_count == 0)
        table_set_wanted(table, NULL);
    queue_settle(table, arrived); /* finds nothing to do in what one of us wrote */
}

static enum hf_status decode(struct view text, struct mono_time arrived, bool of_shard,
                             const struct lease_table *previous, struct lease_table **ret_table,
                             struct hf_error *error)
{
    struct lease_settings settings = lease_settings_default();
    struct decoding d = { .reader = json_read(text),
                          .known = { .table = previous },
                          .arrived = arrived,
                          .error = error };
    struct view name;
    if (text.size > TABLE_BYTES_READ_MAX)
        return error_set(error, HF_CORRUPT, "not a lease table: %zu bytes", text.size);
    if (of_shard)
        settings.ttl_max = SHARD_TTL_MAX;
    d.table = table_new(&settings, 0, error);
    if (!d.table)
        return error->status;
    d.table->of_shard = of_shard;
    for (json_enter_object(&d.reader); json_next_member(&d.reader, &name);)
        decode_member(&d, name);
    json_end(&d.reader);
    decode_waiters_late(&d);
    decode_face(&d);
    decode_ids(&d);
    enum hf_status status = judge_whole(&d);
    ids_release(&d.known.ids);
    if (status != HF_OK) {
        table_free(d.table);
        return status;
    }
    finish(d.table, arrived);
    *ret_table = d.table;
    return HF_OK;
}

enum hf_status table_decode(struct view text, struct mono_time arrived,
                            const struct lease_table *previous, struct lease_table **ret_table,
                            struct hf_error *error)
{
    return decode(text, arrived, /* of_shard */ false, previous, ret_table, error);
}

enum hf_status table_decode_of_shard(struct view text, struct mono_time arrived,
                                     const struct lease_table *previous,
                                     struct lease_table **ret_table, struct hf_error *error)
{
    return decode(text, arrived, /* of_shard */ true, previous, ret_table, error);
}

bool table_peek_reserved(struct view text, struct view *ret_ids, size_t max, size_t *ret_count)
{
    struct json_reader reader = json_read(text);
    struct view name, raw;
    size_t count = 0;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (!view_equal(name, VIEW("reserved"))) {
            json_skip(&reader, &raw);
            continue;
        }
        for (json_enter_array(&reader); json_next_element(&reader);)
            if (json_take_plain(&reader, &raw) && count < max)
                ret_ids[count++] = raw;
        if (reader.why)
            return false;
        *ret_count = count;
        return true;
    }
    return false;
}
