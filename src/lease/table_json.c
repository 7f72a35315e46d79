/* SPDX-License-Identifier: Apache-2.0 */
/* table_json.c: a table as JSON, encoding and decoding side by side. It distinguishes damage from
 * a newer version: only bytes that no version can have written are CORRUPT, because a corrupt
 * table is replaced. Entries that have not changed since the previous reading are shared instead
 * of being decoded again. */
#include "lease/table.h"

#include "base/check.h"
#include "base/checksum.h"
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
        json_write_string(text, table->waiters[i].wanted->asked.id);
        first = false;
    }
    buffer_append_byte(text, ']');
}

static void write_count(struct buffer *text, struct view before, int64_t number)
{
    buffer_append(text, before);
    buffer_append_i64(text, number);
}

static void write_limit(const struct ttl_limit *limit, struct buffer *text)
{
    char until[STAMP_TEXT_MAX];
    if (limit->ttl.us == 0)
        return;
    write_count(text, VIEW(",\"limit_ms\":"), limit->ttl.us / 1000);
    buffer_append(text, VIEW(",\"limit_until\":\""));
    buffer_append(text, view_of(stamp_text(limit->until, until)));
    buffer_append_byte(text, '"');
}

static void write_lease_settings(const struct lease_table *table, struct buffer *text)
{
    const struct lease_settings *settings = &table->settings;
    write_count(text, VIEW(",\n\"settings\":{\"drift_ppm\":"), settings->drift_ppm);
    write_count(text, VIEW(",\"margin_ms\":"), settings->margin.us / 1000);
    write_count(text, VIEW(",\"skew_ms\":"), settings->skew_tolerance.us / 1000);
    write_count(text, VIEW(",\"ttl_max_ms\":"), settings->ttl_max.us / 1000);
    write_count(text, VIEW(",\"late_ms\":"), settings->late_bound.us / 1000);
    buffer_append(text, VIEW(",\"takeover\":"));
    buffer_append(text, settings->watch_only ? VIEW("\"observed\"") : VIEW("\"any\""));
    write_limit(&table->limit, text);
    buffer_append(text, buffer_view(&table->unknown_settings));
    buffer_append_byte(text, '}');
}

/* The first entry of a list has no comma. */
static void write_entry(struct buffer *text, struct view entry, bool first)
{
    buffer_append(text, view_from(entry, first));
}

/* What a table usually has besides its leases. */
#define HEADER_BYTES_USUAL 512

bool table_encode(const struct lease_table *table, struct view nonce, struct buffer *text)
{
    check(!table->adopted);
    /* A document keeps its text for the next write, and there may be many small ones. */
    buffer_reserve(text, table->bytes + HEADER_BYTES_USUAL + table->unknown.size +
                             table->unknown_settings.size);
    buffer_append(text, VIEW("{\"format\":\"" TABLE_FORMAT "\",\"next_token\":"));
    buffer_append_u64(text, table->next_token);
    buffer_append(text, VIEW(",\"write\":"));
    checksum_append_write(text, nonce);
    write_reserved(table, text);
    write_lease_settings(table, text);
    if (table->missed > 0)
        write_count(text, VIEW(",\"missed\":"), table->missed);
    if (table->of_shard)
        legacy_lock_write(table, text);
    if (table->state.size > 0) {
        buffer_append(text, VIEW(",\n\"state\":"));
        buffer_append(text, buffer_view(&table->state));
    }
    buffer_append(text, VIEW(",\n\"leases\":{"));
    for (size_t i = 0; i < table->lease_count; i++)
        write_entry(text, table->leases[i]->entry, i == 0);
    buffer_append_byte(text, '}');
    if (table->wanted) {
        buffer_append(text, VIEW(",\n\"wanted\":"));
        buffer_append(text, table->wanted->bytes);
    }
    buffer_append(text, VIEW(",\n\"waiters\":["));
    for (size_t i = 0; i < table->waiter_count; i++)
        write_entry(text, table->waiters[i].wanted->entry, i == 0);
    buffer_append(text, VIEW("],\n\"audit\":["));
    for (size_t i = 0; i < table->audit_count; i++) {
        buffer_append(text, i ? VIEW(",\n") : VIEW("\n"));
        buffer_append(text, table->audit[i]);
    }
    buffer_append_byte(text, ']');
    buffer_append(text, buffer_view(&table->unknown));
    buffer_append(text, VIEW("}\n"));
    return checksum_finish(text);
}

/* ---- The previous reading ------------------------------------------------------------ */

/* Entries keep their order, so each is usually found right after the one before it, or a little
 * further on if a few in between are gone. */
#define LOOK_AHEAD 32

struct known {
    const struct lease_table *table; /* the previous table, or NULL */
    size_t lease_next, waiter_next;  /* where the next searches start */
    struct ids ids;                  /* made when first needed */
};

/* False if out of memory. */
static bool have_ids(struct known *known)
{
    bool unique;
    return known->ids.slots || ids_init(&known->ids, known->table, &unique);
}

/* The previous lease with this id, or NULL. False if out of memory. */
static bool find_lease_before(struct known *known, struct view id, struct lease **ret_lease)
{
    const struct lease_table *table = known->table;
    size_t count = table ? table->lease_count : 0, at = NOWHERE;
    *ret_lease = NULL;
    size_t near_count = count < LOOK_AHEAD ? count : LOOK_AHEAD;
    for (size_t i = 0; i < near_count; i++) {
        size_t next = (known->lease_next + i) % count;
        if (view_equal(table->leases[next]->id, id)) {
            at = next;
            break;
        }
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

/* Takes the next value if it is a waiter from the previous reading. `wanted` contains the terms
 * that the waiters share now. */
static struct waiter_entry *take_waiter_before(struct known *known, struct json_reader *reader,
                                               const struct wanted *wanted)
{
    const struct lease_table *table = known->table;
    size_t count = table ? table->waiter_count : 0, end = known->waiter_next + LOOK_AHEAD;
    end = end < count ? end : count;
    for (size_t at = known->waiter_next; at < end; at++) {
        struct waiter_entry *before = table->waiters[at].wanted;
        bool same_wish = !before->like || before->like == wanted;
        if (same_wish && json_take_same(reader, before->bytes)) {
            known->waiter_next = at + 1;
            return before;
        }
    }
    return NULL;
}

/* Its previous position in the queue, or NOWHERE; `near` is a guess. False if out of memory. */
static bool find_waiter_before(struct known *known, struct view id, size_t near,
                               size_t *ret_index)
{
    const struct lease_table *table = known->table;
    size_t count = table ? table->waiter_count : 0;
    *ret_index = NOWHERE;
    size_t near_count = count < LOOK_AHEAD ? count : LOOK_AHEAD;
    for (size_t i = 0; i < near_count; i++) {
        size_t at = (near + i) % count;
        if (view_equal(table->waiters[at].wanted->asked.id, id)) {
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

/* Members that may occur once; all others are kept unchanged. */
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
    WORKER_ID, /* this and the next two: of a shard's lock */
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

/* The state of a decoding, besides the table that it fills. */
struct decoding {
    struct json_reader reader;
    struct lease_table *table;
    struct known known;
    struct mono_time arrived;
    unsigned found; /* members, as bits */
    struct view format;
    bool no_memory;                /* says nothing about the document */
    bool later;                    /* it contains keywords of a later version */
    struct view reserved, waiters; /* raw JSON, decoded after the rest */
    struct view legacy[LEGACY_MEMBERS];
    struct hf_error *error;
};

static bool has_member(const struct decoding *d, enum member member)
{
    return d->found >> member & 1;
}

static bool out_of_memory(struct decoding *d)
{
    d->no_memory = true;
    return json_fail(&d->reader, "out of memory");
}

/* If any part cannot be read, the whole table is treated as unreadable. */
static bool bad_part(struct decoding *d, enum hf_status status)
{
    d->later = d->later || (status == HF_UNSUPPORTED && !d->reader.why);
    return status == HF_UNAVAILABLE ? out_of_memory(d) : json_fail(&d->reader, d->error->why);
}

/* Whether an entry was added; if not, the caller frees it. */
static bool note_added(struct decoding *d, bool fits, bool added)
{
    if (!fits)
        json_fail(&d->reader, "too many leases or waiters");
    else if (!added)
        out_of_memory(d);
    return added;
}

/* Both functions add an entry and take ownership of it. */
static void add_lease(struct decoding *d, struct lease *lease)
{
    bool fits = d->table->lease_count < TABLE_LEASES_READ_MAX;
    if (!note_added(d, fits, fits && table_add_lease(d->table, lease)))
        lease_free(lease);
}

static void add_waiter(struct decoding *d, struct waiter_entry *waiter)
{
    bool fits = d->table->waiter_count < TABLE_WAITERS_MAX;
    if (!note_added(d, fits, fits && table_add_waiter(d->table, waiter)))
        waiter_free(waiter);
}

/* Carries sightings over: an unchanged lease has been seen since the first reply that showed it. */
static void add_lease_since(struct decoding *d, struct lease *lease, const struct lease *before)
{
    lease->seen = before && lease_unchanged(before, lease) ? before->seen : d->arrived;
    add_lease(d, lease);
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
        add_lease(d, lease_share(before));
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
    struct waiter_entry *waiter = take_waiter_before(&d->known, &d->reader, d->table->wanted);
    struct view raw;
    if (waiter) {
        add_waiter(d, waiter_share(waiter));
        return;
    }
    if (!json_skip(&d->reader, &raw))
        return;
    enum hf_status status = waiter_decode(raw, d->table->wanted, &waiter, d->error);
    if (status != HF_OK) {
        bad_part(d, status);
        return;
    }
    /* It is new, or more waiters are gone than one search skips. In the latter case, find its
     * previous position, so that the next search starts after it. */
    size_t before = NOWHERE;
    bool lost = d->known.table && d->known.waiter_next < d->known.table->waiter_count;
    if (lost && !find_waiter_before(&d->known, waiter->asked.id, d->known.waiter_next, &before))
        out_of_memory(d);
    if (before != NOWHERE)
        d->known.waiter_next = before + 1;
    add_waiter(d, waiter);
}

static void decode_waiters(struct decoding *d)
{
    for (json_enter_array(&d->reader); json_next_element(&d->reader);)
        decode_waiter(d);
}

static void decode_wanted(struct decoding *d)
{
    struct wanted *before = d->known.table ? d->known.table->wanted : NULL;
    struct view raw;
    if (before && json_take_same(&d->reader, before->bytes)) {
        table_set_wanted(d->table, wanted_share(before));
        return;
    }
    if (!json_skip(&d->reader, &raw))
        return;
    struct wanted *wanted;
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

/* Only src/key interprets the state. Here it is any object of limited size. */
static void decode_state(struct decoding *d)
{
    struct view raw;
    if (json_peek(&d->reader) != JSON_KIND_OBJECT || !json_skip(&d->reader, &raw) ||
        raw.size > TABLE_STATE_MAX) {
        json_fail(&d->reader, "the state is not an object, or is too long");
        return;
    }
    if (buffer_reserve(&d->table->state, raw.size))
        table_set_state(d->table, raw);
    else
        out_of_memory(d);
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
            json_take_span_ms(r, &settings->margin);
        } else if (view_equal(name, VIEW("skew_ms"))) {
            json_take_span_ms(r, &settings->skew_tolerance);
        } else if (view_equal(name, VIEW("ttl_max_ms"))) {
            json_take_span_ms(r, &settings->ttl_max);
        } else if (view_equal(name, VIEW("late_ms"))) {
            json_take_span_ms(r, &settings->late_bound);
        } else if (view_equal(name, VIEW("takeover"))) {
            json_take_plain(r, &word);
            settings->watch_only = view_equal(word, VIEW("observed"));
            if (!r->why && !settings->watch_only && !view_equal(word, VIEW("any"))) {
                d->later = true;
                json_fail(r, "unknown takeover mode; upgrade Holdfast");
            }
        } else if (view_equal(name, VIEW("limit_ms"))) {
            json_take_span_ms(r, &table->limit.ttl);
        } else if (view_equal(name, VIEW("limit_until"))) {
            until_known = json_take_plain(r, &word) && stamp_parse(word, &table->limit.until);
        } else {
            json_keep_member(r, name, &table->unknown_settings);
        }
    }
    /* A limit whose end is unknown must not be used; a client that needs it looks it up again. */
    if (!until_known)
        table->limit = (struct ttl_limit){ .ttl = SPAN_US(0) };
}

static enum member find_table_member(const struct lease_table *table, struct view name)
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
    enum member member = find_table_member(d->table, name);
    if (member < UNKNOWN && has_member(d, member))
        json_fail(r, "a member occurs twice");
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
        if (has_member(d, WANTED)) /* the order in which we write; other programs may differ */
            decode_waiters(d);
        else
            json_skip(r, &d->waiters);
        break;
    case AUDIT: decode_audit(d); break;
    case WORKER_ID:
    case CREATED_AT:
    case EXPIRES_AT: json_skip(r, &d->legacy[member - WORKER_ID]); break;
    case UNKNOWN: json_keep_member(r, name, &d->table->unknown); break;
    }
}

/* Decodes waiters that precede the terms that they share. */
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

/* A file with only the members of legacy_lock.c was written by another program and is decoded as
 * one lease. */
static void decode_legacy_lock(struct decoding *d)
{
    struct lease *before, *lease;
    if (d->reader.why || !d->table->of_shard)
        return;
    if (has_member(d, FORMAT) || has_member(d, LEASES) || !has_member(d, WORKER_ID)) {
        if (!legacy_lock_read(d->table, d->legacy))
            out_of_memory(d);
        return;
    }
    enum hf_status status = legacy_lock_lease(d->legacy, &lease, d->error);
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
        waiter->reserved = true;
        waiter->reserved_seen = d->arrived;
        if (before == NOWHERE)
            continue;
        /* The claim window keeps running only if we have already seen this turn in the store. A
         * turn that we merely computed is counted from this reply, which is the first to show
         * it. */
        const struct waiter *old = &d->known.table->waiters[before];
        bool unwritten = RULE(TURN_SINCE_WRITTEN) && old->called;
        if (old->reserved && !unwritten)
            waiter->reserved_seen = old->reserved_seen;
    }
    if (!json_end(&reader))
        json_fail(&d->reader, reader.why);
}

/* Checks that no id occurs twice, and marks the waiters that have their turn. */
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
        json_fail(&d->reader, "an id occurs twice");
    else if (d->reserved.size > 0)
        mark_reserved(d, &ids);
    ids_release(&ids);
}

/* The format line, wherever it is. A later version may give our members another meaning. Its
 * tables must not look damaged because of that. */
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

/* Checks what a JSON reader cannot: that the members make sense together. */
static enum hf_status check_table(struct decoding *d)
{
    struct lease_table *table = d->table;
    struct view format = d->reader.why ? format_of(d->reader.text) : d->format;
    if (format.size > 0 && !view_equal(format, VIEW(TABLE_FORMAT)))
        return error_set(d->error, HF_UNSUPPORTED,
                         "the format is %.*s, but this version knows only %s; upgrade Holdfast",
                         VIEW_ARGS(view_first(format, 60)), TABLE_FORMAT);
    if (d->later && !d->no_memory && format.size > 0 && is_json(d->reader.text))
        return error_set(d->error, HF_UNSUPPORTED, "%s", d->reader.why);
    table->adopted = format.size == 0;
    if (!has_member(d, LEASES))
        json_fail(&d->reader, "the member 'leases' is missing");
    if (!table->adopted && !has_member(d, NEXT_TOKEN))
        json_fail(&d->reader, "the member 'next_token' is missing");
    /* Every token must be below next_token. Otherwise a later grant would repeat a token. */
    uint64_t end = table->adopted ? TOKEN_MAX : table->next_token;
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->token >= end)
            json_fail(&d->reader, "a lease has a token that was never issued");
    if (d->no_memory || table->unknown.failed || table->unknown_settings.failed)
        return error_no_memory(d->error);
    if (d->reader.why)
        return error_set(d->error, HF_CORRUPT, "not a lease table: %s", d->reader.why);
    return HF_OK;
}

/* Another program's table may contain tokens but no next_token. */
static void complete_table(struct lease_table *table, struct mono_time arrived)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->token >= table->next_token)
            table->next_token = table->leases[i]->token + 1;
    if (table->waiter_count == 0)
        table_set_wanted(table, NULL);
    queue_settle(table, arrived); /* changes nothing in a table that Holdfast wrote */
}

static enum hf_status decode_table(struct view text, struct mono_time arrived, bool of_shard,
                                   const struct lease_table *previous,
                                   struct lease_table **ret_table, struct hf_error *error)
{
    struct lease_settings settings = lease_settings_default();
    struct decoding d = { .reader = json_read(text),
                          .known = { .table = previous },
                          .arrived = arrived,
                          .error = error };
    struct view name;
    if (text.size > TABLE_BYTES_READ_MAX)
        return error_set(error, HF_CORRUPT, "not a lease table: %zu bytes are too many",
                         text.size);
    if (checksum_check(text) == CHECKSUM_WRONG)
        return error_set(error, HF_CORRUPT, "not a lease table: " CHECKSUM_MISTAKE);
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
    decode_legacy_lock(&d);
    decode_ids(&d);
    enum hf_status status = check_table(&d);
    ids_release(&d.known.ids);
    if (status != HF_OK) {
        table_free(d.table);
        return status;
    }
    complete_table(d.table, arrived);
    *ret_table = d.table;
    return HF_OK;
}

enum hf_status table_decode(struct view text, struct mono_time arrived,
                            const struct lease_table *previous, struct lease_table **ret_table,
                            struct hf_error *error)
{
    return decode_table(text, arrived, /* of_shard */ false, previous, ret_table, error);
}

enum hf_status table_decode_of_shard(struct view text, struct mono_time arrived,
                                     const struct lease_table *previous,
                                     struct lease_table **ret_table, struct hf_error *error)
{
    return decode_table(text, arrived, /* of_shard */ true, previous, ret_table, error);
}
