/* face.c: what the lock of a shard says besides, in the words of programs that know no more than
 * that: worker_id, created_at, expires_at. They show the newest lease; of one that is over,
 * expires_at is created_at, so that nobody waits for it. A file of theirs, which has just these, is
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

/* One that is held goes before one that is over, then the newer one. */
static bool shows_more(const struct lease *lease, const struct lease *other)
{
    bool held = lease->status == LEASE_ACTIVE, other_held = other->status == LEASE_ACTIVE;
    return held != other_held ? held : lease->token >= other->token;
}

static const struct lease *newest(const struct lease_table *table)
{
    const struct lease *best = NULL;
    for (size_t i = 0; i < table->lease_count; i++)
        if (!best || shows_more(table->leases[i], best))
            best = table->leases[i];
    return best;
}

static void write_time(struct buffer *text, struct view before, struct wall_time time)
{
    char word[TIME_TEXT_MAX];
    buffer_append(text, before);
    buffer_append(text, view_of(time_text(time, word)));
    buffer_append_byte(text, '"');
}

void face_write(const struct lease_table *table, struct buffer *text)
{
    const struct table_face *last = &table->face;
    const struct lease *lease = newest(table);
    struct wall_time created = lease ? lease->acquired_at : last->created_at;
    struct wall_time expires = created;
    if (lease && lease->status == LEASE_ACTIVE)
        expires = lease->expires_at;
    buffer_append(text, VIEW(",\n\"worker_id\":"));
    json_write_string(text, lease ? lease->holder
                                  : (struct view){ last->worker_id, last->worker_size });
    write_time(text, VIEW(",\"created_at\":\""), created);
    write_time(text, VIEW(",\"expires_at\":\""), expires);
}

/* ---- Remembering --------------------------------------------------------------------- */

/* As much of a holder's name as a lease can have, cut between two characters. */
static struct view as_holder(struct view text)
{
    struct view kept = view_first(text, HOLDER_BYTES_MAX);
    while (kept.size > 0 && !utf8_is_valid(kept))
        kept.size--;
    return kept;
}

static void remember(struct table_face *face, struct view worker, struct wall_time created_at)
{
    struct view kept = as_holder(worker);
    if (kept.size > 0)
        memcpy(face->worker_id, kept.data, kept.size);
    face->worker_size = kept.size;
    face->created_at = created_at;
}

void face_follow(struct lease_table *table, const struct lease *gone)
{
    remember(&table->face, gone->holder, gone->acquired_at);
}

/* ---- Reading ------------------------------------------------------------------------- */

/* The text of a value that should be a string; of any other, the value as it stands. False without
 * memory. */
static bool text_of(struct view raw, struct buffer *space, struct view *ret_text)
{
    struct json_reader reader = json_read(raw);
    *ret_text = raw;
    if (!buffer_reserve(space, raw.size + 1))
        return false;
    json_take_text(&reader, space, ret_text);
    return true;
}

/* Programs write times with a zone, without one, or as a number. One without is taken for UTC: all
 * that matters is how long it is from one to the other, and they are of one clock. */
static bool read_time(struct view raw, struct wall_time *ret_time)
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

bool face_read(struct lease_table *table, const struct view members[FACE_MEMBERS])
{
    struct view worker = VIEW("");
    struct wall_time created_at = { 0 };
    struct buffer space = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    bool good = text_of(members[FACE_WORKER_ID], &space, &worker);
    if (good) {
        read_time(members[FACE_CREATED_AT], &created_at);
        remember(&table->face, worker, created_at);
    }
    buffer_release(&space);
    return good;
}

/* How long it is to be held; zero when that makes no sense, and then nobody knows. */
static struct span ttl_between(struct wall_time created_at, struct wall_time expires_at)
{
    int64_t ms = (wall_since(expires_at, created_at).us + 999) / 1000;
    return ms > 0 && ms <= FACE_TTL_MS_MAX ? SPAN_MS(ms) : SPAN_MS(0);
}

/* The same file is the same lease, whenever it is read; another is another. */
static uint64_t hash_of(const struct view members[FACE_MEMBERS])
{
    struct hash_stream stream;
    hash_stream_init(&stream);
    for (size_t i = 0; i < FACE_MEMBERS; i++) {
        hash_stream_add(&stream, members[i]);
        hash_stream_add(&stream, VIEW(","));
    }
    return hash_stream_xxh3(&stream);
}

enum hf_status face_lease(const struct view members[FACE_MEMBERS], struct lease **ret_lease,
                          struct hf_error *error)
{
    char id[32];
    struct view worker;
    struct wall_time created_at, expires_at;
    struct buffer space = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    struct lease fields = { .status = LEASE_ACTIVE };
    if (!text_of(members[FACE_WORKER_ID], &space, &worker)) {
        buffer_release(&space);
        return error_no_memory(error);
    }
    snprintf(id, sizeof id, "lock-%016" PRIx64, hash_of(members));
    fields.id = view_of(id);
    fields.holder = as_holder(worker);
    if (read_time(members[FACE_CREATED_AT], &created_at) &&
        read_time(members[FACE_EXPIRES_AT], &expires_at)) {
        fields.acquired_at = created_at;
        fields.expires_at = expires_at;
        fields.ttl = ttl_between(created_at, expires_at);
    }
    enum hf_status status = lease_new(&fields, ret_lease, error);
    buffer_release(&space);
    return status;
}
