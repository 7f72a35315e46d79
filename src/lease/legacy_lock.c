/* SPDX-License-Identifier: Apache-2.0 */
/* legacy_lock.c: the members worker_id, created_at and expires_at of a shard's lock, for programs
 * that understand no others. They describe the newest lease. If that lease has ended, expires_at
 * equals created_at, so that no such program waits for it. A file that has only these members is
 * read as one active lease. */
#include "base/hash.h"
#include "base/instant.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "lease/table_inside.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Writing ------------------------------------------------------------------------- */

/* Prefers a held lease to one that has ended, then the newer lease. */
static bool shows_more(const struct lease *lease, const struct lease *other)
{
    bool held = lease->status == LEASE_ACTIVE, other_held = other->status == LEASE_ACTIVE;
    return held != other_held ? held : lease->token >= other->token;
}

static const struct lease *find_shown_lease(const struct lease_table *table)
{
    const struct lease *best = NULL;
    for (size_t i = 0; i < table->lease_count; i++)
        if (!best || shows_more(table->leases[i], best))
            best = table->leases[i];
    return best;
}

static void write_legacy_time(struct buffer *text, struct view before, struct wall_time time)
{
    char word[TIME_TEXT_MAX];
    buffer_append(text, before);
    buffer_append(text, view_of(time_text(time, word)));
    buffer_append_byte(text, '"');
}

void legacy_lock_write(const struct lease_table *table, struct buffer *text)
{
    const struct table_legacy_lock *last = &table->legacy;
    const struct lease *lease = find_shown_lease(table);
    struct wall_time created = lease ? lease->acquired_at : last->created_at;
    struct wall_time expires = created;
    if (lease && lease->status == LEASE_ACTIVE)
        expires = lease->expires_at;
    buffer_append(text, VIEW(",\n\"worker_id\":"));
    json_write_string(text, lease ? lease->holder
                                  : (struct view){ last->worker_id, last->worker_size });
    write_legacy_time(text, VIEW(",\"created_at\":\""), created);
    write_legacy_time(text, VIEW(",\"expires_at\":\""), expires);
}

/* ---- Remembering --------------------------------------------------------------------- */

/* The longest prefix of a holder's name that fits into a lease. No character is cut in half. */
static struct view as_holder(struct view text)
{
    struct view kept = view_first(text, HOLDER_BYTES_MAX);
    while (kept.size > 0 && !utf8_is_valid(kept))
        kept.size--;
    return kept;
}

static void remember_holder(struct table_legacy_lock *legacy, struct view worker,
                            struct wall_time created_at)
{
    struct view kept = as_holder(worker);
    if (kept.size > 0)
        memcpy(legacy->worker_id, kept.data, kept.size);
    legacy->worker_size = kept.size;
    legacy->created_at = created_at;
}

void legacy_lock_follow(struct lease_table *table, const struct lease *gone)
{
    remember_holder(&table->legacy, gone->holder, gone->acquired_at);
}

/* ---- Reading ------------------------------------------------------------------------- */

/* The text of a string; the raw JSON of any other value. False if out of memory. */
static bool decode_legacy_text(struct view raw, struct buffer *space, struct view *ret_text)
{
    struct json_reader reader = json_read(raw);
    *ret_text = raw;
    if (!buffer_reserve(space, raw.size + 1))
        return false;
    json_take_text(&reader, space, ret_text);
    return true;
}

/* Other programs write a time with a zone, without one, or as a number. A time without a zone is
 * read as UTC, because only the difference between two times on the same clock matters. */
static bool read_legacy_time(struct view raw, struct wall_time *ret_time)
{
    char with_zone[64];
    struct instant instant;
    struct json_reader reader = json_read(raw);
    struct view text = raw;
    if (raw.size > 0 && raw.data[0] == '"')
        json_take_plain(&reader, &text);
    bool good = instant_parse(text, &instant);
    if (!good && text.size < sizeof with_zone) {
        int size = snprintf(with_zone, sizeof with_zone, "%.*sZ", VIEW_ARGS(text));
        good = instant_parse_rfc3339((struct view){ with_zone, (size_t)size }, &instant);
    }
    if (!good || instant.s < INSTANT_S_MIN || instant.s > INSTANT_S_MAX)
        return false;
    ret_time->us = instant.s * 1000000 + (int64_t)(instant.atto / UINT64_C(1000000000000));
    return true;
}

bool legacy_lock_read(struct lease_table *table, const struct view members[LEGACY_MEMBERS])
{
    struct view worker = VIEW("");
    struct wall_time created_at = { 0 };
    struct buffer space = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    bool good = decode_legacy_text(members[LEGACY_WORKER_ID], &space, &worker);
    if (good) {
        read_legacy_time(members[LEGACY_CREATED_AT], &created_at);
        remember_holder(&table->legacy, worker, created_at);
    }
    buffer_release(&space);
    return good;
}

/* The ttl of the lock, or zero, which means unknown, if the times make no sense. */
static struct span ttl_between(struct wall_time created_at, struct wall_time expires_at)
{
    int64_t ms = (wall_since(expires_at, created_at).us + 999) / 1000;
    return ms > 0 && ms <= LEGACY_TTL_MS_MAX ? SPAN_MS(ms) : SPAN_MS(0);
}

/* The lease's id is a hash of the file's members. So an unchanged file is the same lease in every
 * read, and can be watched, and a rewritten file is a new lease. */
static uint64_t hash_members(const struct view members[LEGACY_MEMBERS])
{
    struct hash_stream stream;
    hash_stream_init(&stream);
    for (size_t i = 0; i < LEGACY_MEMBERS; i++) {
        hash_stream_add(&stream, members[i]);
        hash_stream_add(&stream, VIEW(","));
    }
    return hash_stream_xxh3(&stream);
}

enum hf_status legacy_lock_lease(const struct view members[LEGACY_MEMBERS],
                                 struct lease **ret_lease, struct hf_error *error)
{
    char id[32];
    struct view worker;
    struct wall_time created_at, expires_at;
    struct buffer space = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    struct lease fields = { .status = LEASE_ACTIVE };
    if (!decode_legacy_text(members[LEGACY_WORKER_ID], &space, &worker)) {
        buffer_release(&space);
        return error_no_memory(error);
    }
    snprintf(id, sizeof id, "lock-%016" PRIx64, hash_members(members));
    fields.id = view_of(id);
    fields.holder = as_holder(worker);
    if (read_legacy_time(members[LEGACY_CREATED_AT], &created_at) &&
        read_legacy_time(members[LEGACY_EXPIRES_AT], &expires_at)) {
        fields.acquired_at = created_at;
        fields.expires_at = expires_at;
        fields.wish.ttl = ttl_between(created_at, expires_at);
    }
    enum hf_status status = lease_new(&fields, ret_lease, error);
    buffer_release(&space);
    return status;
}
