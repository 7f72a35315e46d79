/* table.c: a table and its JSON: encoding and decoding side by side. */
#include "lease/table.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/json.h"
#include "lease/table_inside.h"

#include <inttypes.h>
#include <stdlib.h>

struct lease_table *table_new(const struct lease_settings *settings, uint64_t epoch,
                              struct hf_error *error)
{
    struct lease_table *table = malloc(sizeof *table);
    if (!table) {
        error_no_memory(error);
        return NULL;
    }
    *table = (struct lease_table){
        .next_token = epoch << 32 | 1,
        .settings = *settings,
        .unknown = BUFFER_INIT(TABLE_BYTES_READ_MAX),
    };
    return table;
}

void table_free(struct lease_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->lease_count; i++)
        lease_free(table->leases[i]);
    for (size_t i = 0; i < table->waiter_count; i++)
        lease_free(table->waiters[i].wanted);
    for (size_t i = 0; i < table->audit_count; i++)
        free((char *)(uintptr_t)table->audit[i].data);
    free(table->leases);
    free(table->waiters);
    free(table->audit);
    buffer_release(&table->unknown);
    free(table);
}

struct lease *table_find(const struct lease_table *table, struct view id)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (view_equal(table->leases[i]->id, id))
            return table->leases[i];
    return NULL;
}

struct waiter *table_find_waiter(const struct lease_table *table, struct view id)
{
    for (size_t i = 0; i < table->waiter_count; i++)
        if (view_equal(table->waiters[i].wanted->id, id))
            return &table->waiters[i];
    return NULL;
}

/* ---- Keeping arrays ------------------------------------------------------------------ */

/* Room for one more in an array that grows by doubling; false without memory. */
static bool grow(void **array, size_t count, size_t element_size)
{
    bool full = count == 0 || (count & (count - 1)) == 0;
    if (!full)
        return true;
    void *more = realloc(*array, (count ? 2 * count : 1) * element_size);
    if (!more)
        return false;
    *array = more;
    return true;
}

bool table_add_lease(struct lease_table *table, struct lease *lease)
{
    void *leases = table->leases;
    if (!grow(&leases, table->lease_count, sizeof(struct lease *)))
        return false;
    table->leases = leases;
    table->leases[table->lease_count++] = lease;
    table->bytes += lease->bytes.size + lease->id.size;
    return true;
}

void table_remove_lease(struct lease_table *table, size_t index)
{
    struct lease *lease = table->leases[index];
    table->bytes -= lease->bytes.size + lease->id.size;
    table->lease_count--;
    memmove(&table->leases[index], &table->leases[index + 1],
            (table->lease_count - index) * sizeof(struct lease *));
    lease_free(lease);
}

bool table_add_waiter(struct lease_table *table, struct lease *wanted)
{
    void *waiters = table->waiters;
    if (!grow(&waiters, table->waiter_count, sizeof *table->waiters))
        return false;
    table->waiters = waiters;
    table->waiters[table->waiter_count++] = (struct waiter){ .wanted = wanted };
    table->bytes += wanted->bytes.size;
    return true;
}

struct lease *table_take_waiter(struct lease_table *table, size_t index)
{
    struct lease *wanted = table->waiters[index].wanted;
    table->bytes -= wanted->bytes.size;
    table->waiter_count--;
    memmove(&table->waiters[index], &table->waiters[index + 1],
            (table->waiter_count - index) * sizeof *table->waiters);
    return wanted;
}

static void remove_audit(struct lease_table *table, size_t index)
{
    table->bytes -= table->audit[index].size;
    free((char *)(uintptr_t)table->audit[index].data);
    table->audit_count--;
    memmove(&table->audit[index], &table->audit[index + 1],
            (table->audit_count - index) * sizeof *table->audit);
}

bool table_add_audit(struct lease_table *table, struct view entry)
{
    void *audit = table->audit;
    char *copy = malloc(entry.size + 1);
    if (!copy || !grow(&audit, table->audit_count, sizeof *table->audit)) {
        free(copy);
        return false;
    }
    memcpy(copy, entry.data, entry.size);
    table->audit = audit;
    table->audit[table->audit_count++] = (struct view){ copy, entry.size };
    table->bytes += entry.size;
    if (table->audit_count > TABLE_AUDIT_MAX)
        remove_audit(table, 0);
    return true;
}

void table_drop_audit(struct lease_table *table)
{
    remove_audit(table, table->audit_count - 1);
}

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

static void write_settings(const struct lease_settings *settings, struct buffer *text)
{
    buffer_print(text,
                 ",\n\"settings\":{\"drift_ppm\":%" PRIu32 ",\"margin_ms\":%" PRId64
                 ",\"skew_ms\":%" PRId64 ",\"ttl_max_ms\":%" PRId64 ",\"late_ms\":%" PRId64
                 ",\"takeover\":\"%s\"}",
                 settings->drift_ppm, settings->margin.us / 1000,
                 settings->skew_tolerance.us / 1000, settings->ttl_max.us / 1000,
                 settings->late_bound.us / 1000, settings->watch_only ? "observed" : "any");
}

bool table_encode(const struct lease_table *table, struct view nonce, struct buffer *text)
{
    check(!table->adopted);
    buffer_reserve(text, table->bytes + KIB_OF_HEADER);
    buffer_print(text, "{\"format\":\"%s\",\"next_token\":%" PRIu64 ",\"write\":\"%.*s\"",
                 TABLE_FORMAT, table->next_token, VIEW_ARGS(nonce));
    write_reserved(table, text);
    write_settings(&table->settings, text);
    if (table->missed > 0)
        buffer_print(text, ",\"missed\":%u", table->missed);
    buffer_append(text, VIEW(",\n\"leases\":{"));
    for (size_t i = 0; i < table->lease_count; i++) {
        buffer_append(text, i ? VIEW(",\n") : VIEW("\n"));
        json_write_string(text, table->leases[i]->id);
        buffer_append_byte(text, ':');
        buffer_append(text, table->leases[i]->bytes);
    }
    buffer_append(text, VIEW("},\n\"waiters\":["));
    for (size_t i = 0; i < table->waiter_count; i++) {
        buffer_append(text, i ? VIEW(",\n") : VIEW("\n"));
        buffer_append(text, table->waiters[i].wanted->bytes);
    }
    buffer_append(text, VIEW("],\n\"audit\":["));
    for (size_t i = 0; i < table->audit_count; i++) {
        buffer_append(text, i ? VIEW(",\n") : VIEW("\n"));
        buffer_append(text, table->audit[i]);
    }
    buffer_append_byte(text, ']');
    buffer_append(text, buffer_view(&table->unknown));
    return buffer_append(text, VIEW("}\n"));
}

/* ---- Decoding ------------------------------------------------------------------------ */

/* What a decoding has besides the table that it fills. */
struct decoding {
    struct json_reader reader;
    struct lease_table *table;
    struct view format;
    bool has_next_token, has_leases;
    bool no_memory;       /* says nothing about the document */
    struct view reserved; /* the array, as it stands */
    struct hf_error *error;
};

static bool out_of_memory(struct decoding *d)
{
    d->no_memory = true;
    return json_fail(&d->reader, "out of memory");
}

static bool decode_lease(struct decoding *d, struct view name, struct view raw, bool waits)
{
    struct lease *lease;
    enum hf_status status = lease_decode(name, raw, &lease, d->error);
    if (status != HF_OK)
        return status == HF_UNAVAILABLE ? out_of_memory(d)
                                        : json_fail(&d->reader, d->error->why);
    bool fits = waits ? d->table->waiter_count < TABLE_WAITERS_MAX
                      : d->table->lease_count < TABLE_LEASES_READ_MAX;
    bool added =
        fits && (waits ? table_add_waiter(d->table, lease) : table_add_lease(d->table, lease));
    if (added)
        return true;
    lease_free(lease);
    return fits ? out_of_memory(d) : json_fail(&d->reader, "more leases than can be");
}

static void decode_leases(struct decoding *d)
{
    struct view name, raw;
    d->has_leases = true;
    for (json_enter_object(&d->reader); json_next_member(&d->reader, &name);)
        if (json_skip(&d->reader, &raw))
            decode_lease(d, name, raw, /* waits */ false);
}

static void decode_waiters(struct decoding *d)
{
    struct view any_name = { NULL, 0 }, raw;
    for (json_enter_array(&d->reader); json_next_element(&d->reader);)
        if (json_skip(&d->reader, &raw))
            decode_lease(d, any_name, raw, /* waits */ true);
}

static void decode_audit(struct decoding *d)
{
    struct view raw;
    for (json_enter_array(&d->reader); json_next_element(&d->reader);)
        if (json_skip(&d->reader, &raw) && !table_add_audit(d->table, raw))
            out_of_memory(d);
}

static void take_ms(struct json_reader *reader, struct span *ret_span)
{
    uint64_t ms;
    if (json_take_u64(reader, INT64_MAX / 4000, &ms))
        *ret_span = SPAN_MS(ms);
}

static void decode_settings(struct json_reader *r, struct lease_settings *settings)
{
    struct view name, raw, word;
    uint64_t number;
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
            if (json_take_plain(r, &word))
                settings->watch_only = !view_equal(word, VIEW("any"));
        } else {
            json_skip(r, &raw);
        }
    }
}

static void keep_unknown(struct decoding *d, struct view name)
{
    struct view raw;
    if (!json_skip(&d->reader, &raw))
        return;
    buffer_append(&d->table->unknown, VIEW(",\""));
    buffer_append(&d->table->unknown, name);
    buffer_append(&d->table->unknown, VIEW("\":"));
    buffer_append(&d->table->unknown, raw);
}

static void decode_member(struct decoding *d, struct view name)
{
    struct json_reader *r = &d->reader;
    struct view raw;
    uint64_t number;
    if (view_equal(name, VIEW("format"))) {
        json_take_plain(r, &d->format);
    } else if (view_equal(name, VIEW("next_token"))) {
        d->has_next_token = json_take_u64(r, TOKEN_MAX, &d->table->next_token);
    } else if (view_equal(name, VIEW("write"))) {
        json_skip(r, &raw);
    } else if (view_equal(name, VIEW("reserved"))) {
        json_skip(r, &d->reserved);
    } else if (view_equal(name, VIEW("missed"))) {
        if (json_take_u64(r, MISSED_MAX, &number))
            d->table->missed = (unsigned)number;
    } else if (view_equal(name, VIEW("settings"))) {
        decode_settings(r, &d->table->settings);
    } else if (view_equal(name, VIEW("leases"))) {
        decode_leases(d);
    } else if (view_equal(name, VIEW("waiters"))) {
        decode_waiters(d);
    } else if (view_equal(name, VIEW("audit"))) {
        decode_audit(d);
    } else {
        keep_unknown(d, name);
    }
}

static void mark_reserved(struct decoding *d)
{
    if (d->reserved.size == 0)
        return;
    struct json_reader reader = json_read(d->reserved);
    for (json_enter_array(&reader); json_next_element(&reader);) {
        struct view id;
        struct waiter *waiter =
            json_take_plain(&reader, &id) ? table_find_waiter(d->table, id) : NULL;
        if (waiter)
            waiter->reserved = true;
    }
    if (!json_end(&reader))
        json_fail(&d->reader, reader.why);
}

static bool has_duplicate_ids(struct decoding *d)
{
    const struct lease_table *table = d->table;
    size_t count = table->lease_count + table->waiter_count, room = 16;
    while (room < 2 * count)
        room *= 2;
    const struct view **slots = calloc(room, sizeof(struct view *));
    bool duplicate = false;
    if (!slots)
        return out_of_memory(d);
    for (size_t i = 0; !duplicate && i < count; i++) {
        const struct view *id = i < table->lease_count
                                    ? &table->leases[i]->id
                                    : &table->waiters[i - table->lease_count].wanted->id;
        size_t at = hash_xxh3(*id) & (room - 1);
        for (; slots[at] && !duplicate; at = (at + 1) & (room - 1))
            duplicate = view_equal(*slots[at], *id);
        slots[at] = id;
    }
    free(slots);
    return duplicate;
}

/* What the whole must be besides being JSON of the right types. */
static enum hf_status judge_whole(struct decoding *d)
{
    struct lease_table *table = d->table;
    if (!d->reader.why && d->format.size > 0 && !view_equal(d->format, VIEW(TABLE_FORMAT)))
        return error_set(d->error, HF_UNSUPPORTED,
                         "its format is %.*s, and this version knows %s: upgrade",
                         VIEW_ARGS(view_first(d->format, 60)), TABLE_FORMAT);
    table->adopted = d->format.size == 0;
    if (!d->has_leases)
        json_fail(&d->reader, "it has no leases");
    if (!table->adopted && !d->has_next_token)
        json_fail(&d->reader, "it has no next_token");
    for (size_t i = 0; !table->adopted && i < table->lease_count; i++)
        if (table->leases[i]->token >= table->next_token)
            json_fail(&d->reader, "a token that was never given");
    if (!d->reader.why && has_duplicate_ids(d))
        json_fail(&d->reader, "an id that stands twice");
    if (d->no_memory || table->unknown.failed)
        return error_no_memory(d->error);
    if (d->reader.why)
        return error_set(d->error, HF_CORRUPT, "not a lease table: %s", d->reader.why);
    return HF_OK;
}

/* The lease of this id in an earlier table. Entries rarely move, so the search starts at
 * `hint`. */
static const struct lease *find_near(const struct lease_table *table, struct view id,
                                     size_t hint)
{
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[(hint + i) % table->lease_count];
        if (view_equal(lease->id, id))
            return lease;
    }
    return NULL;
}

/* Sightings: what stands unchanged was seen since the first reply that showed it. */
static void carry_sightings(struct lease_table *table, const struct lease_table *previous,
                            struct mono_time arrived)
{
    for (size_t i = 0; i < table->lease_count; i++) {
        struct lease *lease = table->leases[i];
        const struct lease *before = previous ? find_near(previous, lease->id, i) : NULL;
        lease->seen = before && lease_unchanged(before, lease) ? before->seen : arrived;
    }
    for (size_t i = 0; i < table->waiter_count; i++) {
        struct waiter *waiter = &table->waiters[i];
        if (!waiter->reserved)
            continue;
        const struct waiter *before =
            previous ? table_find_waiter(previous, waiter->wanted->id) : NULL;
        waiter->reserved_seen = before && before->reserved ? before->reserved_seen : arrived;
    }
}

enum hf_status table_decode(struct view text, struct mono_time arrived,
                            const struct lease_table *previous, struct lease_table **ret_table,
                            struct hf_error *error)
{
    struct lease_settings settings = lease_settings_default();
    struct decoding d = { .reader = json_read(text), .error = error };
    struct view name;
    if (text.size > TABLE_BYTES_READ_MAX)
        return error_set(error, HF_CORRUPT, "not a lease table: %zu bytes", text.size);
    d.table = table_new(&settings, 0, error);
    if (!d.table)
        return error->status;
    for (json_enter_object(&d.reader); json_next_member(&d.reader, &name);)
        decode_member(&d, name);
    json_end(&d.reader);
    mark_reserved(&d);
    enum hf_status status = judge_whole(&d);
    if (status != HF_OK) {
        table_free(d.table);
        return status;
    }
    carry_sightings(d.table, previous, arrived);
    queue_settle(d.table, arrived); /* finds nothing to do in what one of us wrote */
    *ret_table = d.table;
    return HF_OK;
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
