/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c: a lease and its JSON, encoding and decoding side by side. */
#include "lease/lease_inside.h"

#include "base/check.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/rule.h"
#include "lease/table_inside.h"

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

/* The index of a word in `names`, or `count`. Some programs that write plain lease files
 * capitalise the status. */
static size_t find_word(struct view name, const char *const *names, size_t count)
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

/* Writes the name of a member. Our own member names need no escapes. */
static void write_member_name(struct buffer *out, struct view name)
{
    buffer_append(out, VIEW(",\""));
    buffer_append(out, name);
    buffer_append(out, VIEW("\":"));
}

/* Returns the position of the text. */
static size_t write_text_member(struct buffer *out, struct view name, struct view value)
{
    if (value.size == 0)
        return 0;
    write_member_name(out, name);
    json_write_string(out, value);
    return out->size - value.size - 1; /* if it was written as it is */
}

static void write_number_member(struct buffer *out, struct view name, int64_t value)
{
    if (value == 0)
        return;
    write_member_name(out, name);
    buffer_append_i64(out, value);
}

static void write_time_member(struct buffer *out, struct view name, struct wall_time time)
{
    char text[TIME_TEXT_MAX];
    if (time.us != 0)
        write_text_member(out, name, view_of(time_text(time, text)));
}

static void write_stamp_member(struct buffer *out, struct view name, struct stamp stamp)
{
    char text[STAMP_TEXT_MAX];
    if (stamp.clock != 0)
        write_text_member(out, name, view_of(stamp_text(stamp, text)));
}

/* Chunks are written by name, as in plain lease files. All other scopes are written as text. */
static void write_scopes(struct buffer *out, const struct lease_wish *wish, bool chunks)
{
    bool first = true;
    char text[SCOPE_TEXT_MAX + 1];
    for (size_t i = 0; i < wish->scope_count; i++) {
        const struct scope *scope = &wish->scopes[i];
        if ((scope->kind == SCOPE_CHUNK) != chunks)
            continue;
        if (first)
            write_member_name(out, chunks ? VIEW("chunks") : VIEW("scopes"));
        buffer_append_byte(out, first ? '[' : ',');
        json_write_string(out, chunks ? scope->name : view_of(scope_text(scope, text)));
        first = false;
    }
    if (!first)
        buffer_append_byte(out, ']');
}

/* Writes the terms that a waiter asks for. */
static void write_wish(struct buffer *out, const struct lease_wish *wish)
{
    write_scopes(out, wish, /* chunks */ true);
    write_scopes(out, wish, /* chunks */ false);
    if (wish->mode != LEASE_EXCLUSIVE)
        write_text_member(out, VIEW("mode"), view_of(mode_names[wish->mode]));
    write_number_member(out, VIEW("level"), (int64_t)wish->level);
    write_number_member(out, VIEW("poll_ms"), wish->poll.us / 1000);
    write_number_member(out, VIEW("slots"), (int64_t)wish->slots);
    write_number_member(out, VIEW("ttl_ms"), wish->ttl.us / 1000);
}

static void begin_object(struct buffer *out, struct view id)
{
    buffer_append(out, VIEW("{\"lease_id\":"));
    json_write_string(out, id);
}

#define NOTE_MEMBER ",\"note\":"

static void end_object(struct buffer *out, struct view note, struct view unknown)
{
    if (note.size > 0) {
        buffer_append(out, VIEW(NOTE_MEMBER));
        buffer_append(out, note);
    }
    buffer_append(out, unknown);
    buffer_append_byte(out, '}');
}

struct lease_positions lease_encode(const struct lease *lease, struct buffer *out)
{
    struct lease_positions at = { .id = sizeof "{\"lease_id\":\"" - 1 };
    begin_object(out, lease->id);
    at.holder = write_text_member(out, VIEW("holder_id"), lease->holder);
    write_scopes(out, &lease->wish, /* chunks */ true);
    at.scopes = out->size + sizeof ",\"scopes\":" - 1;
    write_scopes(out, &lease->wish, /* chunks */ false);
    at.session = write_text_member(out, VIEW("session"), lease->session);
    write_text_member(out, VIEW("mode"), view_of(mode_names[lease->wish.mode]));
    buffer_append(out, VIEW(",\"token\":"));
    buffer_append_u64(out, lease->token);
    buffer_append(out, VIEW(",\"level\":"));
    buffer_append_u64(out, lease->wish.level);
    write_text_member(out, VIEW("status"), view_of(status_names[lease->status]));
    write_number_member(out, VIEW("slots"), (int64_t)lease->wish.slots);
    write_number_member(out, VIEW("ttl_ms"), lease->wish.ttl.us / 1000);
    write_number_member(out, VIEW("renewals"), (int64_t)lease->renewals);
    at.clock = write_text_member(out, VIEW("clock"), lease->clock);
    write_number_member(out, VIEW("expires_us"), lease->expires.us);
    write_number_member(out, VIEW("ended_us"), lease->ended.us);
    write_number_member(out, VIEW("once_per_ms"), lease->once_per.us / 1000);
    write_stamp_member(out, VIEW("granted"), lease->granted);
    at.nonce = write_text_member(out, VIEW("nonce"), lease->nonce);
    write_time_member(out, VIEW("acquired_at"), lease->acquired_at);
    write_time_member(out, VIEW("expires_at"), lease->expires_at);
    at.output = write_text_member(out, VIEW("output"), lease->output);
    at.note = out->size + sizeof NOTE_MEMBER - 1;
    end_object(out, lease->note, lease->unknown);
    return at;
}

void waiter_encode(const struct lease_request *asked, bool alike, struct buffer *out)
{
    begin_object(out, asked->id);
    if (!view_equal(asked->holder, asked->session))
        write_text_member(out, VIEW("holder_id"), asked->holder);
    if (!alike)
        write_wish(out, &asked->wish);
    write_text_member(out, VIEW("place"), asked->place);
    write_text_member(out, VIEW("output"), asked->output);
    end_object(out, asked->note, asked->unknown);
}

void wanted_encode(const struct lease_wish *wish, struct buffer *out)
{
    check(wish->poll.us > 0);
    write_wish(out, wish);
    if (out->size > 0)
        out->data[0] = '{'; /* in place of the first comma */
    buffer_append_byte(out, '}');
}

/* ---- Reading members ----------------------------------------------------------------- */

/* The members are in the order in which we write them, because the search for each member starts
 * after the previous one. */
enum member {
    LEASE_ID,
    HOLDER_ID,
    CHUNKS,
    SCOPES,
    SESSION,
    MODE,
    TOKEN,
    LEVEL,
    STATUS,
    POLL_MS,
    SLOTS,
    TTL_MS,
    RENEWALS,
    CLOCK,
    EXPIRES_US,
    ENDED_US,
    ONCE_PER_MS,
    GRANTED,
    NONCE,
    ACQUIRED_AT,
    EXPIRES_AT,
    PLACE,
    OUTPUT,
    NOTE,
    UNKNOWN,
};

static const struct view member_names[UNKNOWN] = {
    [LEASE_ID] = { "lease_id", 8 },
    [HOLDER_ID] = { "holder_id", 9 },
    [CHUNKS] = { "chunks", 6 },
    [SCOPES] = { "scopes", 6 },
    [SESSION] = { "session", 7 },
    [MODE] = { "mode", 4 },
    [TOKEN] = { "token", 5 },
    [LEVEL] = { "level", 5 },
    [STATUS] = { "status", 6 },
    [POLL_MS] = { "poll_ms", 7 },
    [SLOTS] = { "slots", 5 },
    [TTL_MS] = { "ttl_ms", 6 },
    [RENEWALS] = { "renewals", 8 },
    [CLOCK] = { "clock", 5 },
    [EXPIRES_US] = { "expires_us", 10 },
    [ENDED_US] = { "ended_us", 8 },
    [ONCE_PER_MS] = { "once_per_ms", 11 },
    [GRANTED] = { "granted", 7 },
    [NONCE] = { "nonce", 5 },
    [ACQUIRED_AT] = { "acquired_at", 11 },
    [EXPIRES_AT] = { "expires_at", 10 },
    [PLACE] = { "place", 5 },
    [OUTPUT] = { "output", 6 },
    [NOTE] = { "note", 4 },
};

#define BIT(member) (UINT32_C(1) << (member))

/* A waiter has either all of these members or none. */
#define WISH_BITS                                                                     \
    (BIT(CHUNKS) | BIT(SCOPES) | BIT(MODE) | BIT(LEVEL) | BIT(POLL_MS) | BIT(SLOTS) | \
     BIT(TTL_MS))

/* The kinds of JSON objects that are decoded here. */
enum form { FORM_LEASE, FORM_WAITER, FORM_WANTED };

/* What is decoded. */
struct source {
    enum form form;
    size_t size;               /* of the struct that will hold it */
    struct view name;          /* of a lease: its member name */
    struct view bytes;         /* the JSON object */
    const struct wanted *like; /* of a waiter: the terms that it may share, or NULL */
};

struct reading {
    struct json_reader reader;
    struct lease *lease; /* for a waiter, the fields that its lease would have */
    const struct source *source;
    uint32_t found;        /* members, as bits */
    struct buffer unknown; /* the other members, unchanged */
    /* A keyword that only a later version can have written; empty if there is none. */
    struct view later;
};

static enum member find_lease_member(struct view name, unsigned start)
{
    for (unsigned i = 0; i < UNKNOWN; i++) {
        unsigned member = (start + i) % UNKNOWN;
        if (view_equal(name, member_names[member]))
            return (enum member)member;
    }
    return UNKNOWN;
}

static void take_bounded_text(struct json_reader *reader, struct lease *lease, size_t max,
                              struct view *ret_text)
{
    struct view text;
    if (!json_take_text(reader, &lease->unescaped, &text))
        return;
    if (text.size > max)
        json_fail(reader, "a string is too long");
    else
        *ret_text = text;
}

/* Ids occur in several places in a table and are compared byte by byte, so they must not contain
 * escapes. */
static void take_id(struct json_reader *reader, struct view *ret_id)
{
    struct view id;
    if (!json_take_plain(reader, &id))
        return;
    if (id.size > HOLDER_BYTES_MAX)
        json_fail(reader, "an id is too long");
    else
        *ret_id = id;
}

/* Whether an unknown text has the form of our keywords. */
#define WORD_BYTES_MAX 32
static bool is_word(struct view text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i], small = (char)(c | 0x20);
        bool letter = small >= 'a' && small <= 'z';
        if (!letter && (i == 0 || !((c >= '0' && c <= '9') || c == '_' || c == '-')))
            return false;
    }
    return text.size > 0 && text.size <= WORD_BYTES_MAX;
}

/* An unknown keyword of this form may come from a later version. The table must then be refused
 * as UNSUPPORTED: if it were treated as damaged, it would be replaced and all its holders
 * forgotten. */
static void note_later_word(struct reading *r, struct view word, const char *why)
{
    if (!r->reader.why && is_word(word))
        r->later = word;
    json_fail(&r->reader, why);
}

static size_t take_name(struct reading *r, const char *const *names, size_t count)
{
    struct view text = VIEW("");
    if (!json_take_plain(&r->reader, &text))
        return 0;
    size_t index = text.size > 0 ? find_word(text, names, count) : count;
    if (index == count)
        note_later_word(r, text, "unknown word");
    return index < count ? index : 0;
}

static void take_wall_time(struct json_reader *reader, struct wall_time *ret_time)
{
    struct view text;
    if (json_take_plain(reader, &text) && parse_time(text, ret_time, NULL) != HF_OK)
        json_fail(reader, "a time is invalid");
}

static void take_lease_stamp(struct json_reader *reader, struct stamp *ret_stamp)
{
    struct view text;
    if (json_take_plain(reader, &text) && !stamp_parse(text, ret_stamp))
        json_fail(reader, "a timestamp is invalid");
}

static bool add_scope(struct json_reader *reader, struct lease *lease,
                      const struct scope *scope)
{
    struct lease_wish *wish = &lease->wish;
    if (wish->scope_count == LEASE_SCOPES_MAX)
        return json_fail(reader, "too many scopes");
    if ((wish->scope_count & (wish->scope_count + 1)) == 0 || wish->scope_count == 0) {
        size_t room = wish->scope_count ? 2 * wish->scope_count + 2 : 1;
        struct scope *more = realloc(wish->scopes, room * sizeof *more);
        if (!more) {
            lease->unescaped.failed = true; /* reported like any other lack of memory */
            return json_fail(reader, "out of memory");
        }
        wish->scopes = more;
    }
    wish->scopes[wish->scope_count++] = *scope;
    return true;
}

static void take_scopes(struct reading *r, bool chunks)
{
    struct json_reader *reader = &r->reader;
    for (json_enter_array(reader); json_next_element(reader);) {
        struct view text = VIEW("");
        struct scope scope = { .kind = SCOPE_CHUNK };
        take_bounded_text(reader, r->lease, SCOPE_TEXT_MAX, &text);
        scope.name = text;
        if (!chunks && !scope_kind_known(text))
            note_later_word(r, view_first(text, view_find(text, ':')), "unknown kind of scope");
        else if (!chunks && scope_parse(text, &scope, NULL) != HF_OK)
            json_fail(reader, "a scope is invalid");
        else if (!reader->why)
            add_scope(reader, r->lease, &scope);
    }
}

/* The time is bounded, so that adding a span to it does not overflow. */
static void take_store_time(struct json_reader *reader, struct store_time *ret_time)
{
    int64_t us;
    if (!json_take_i64(reader, &us))
        return;
    if (us < -MOMENT_FAR || us > MOMENT_FAR)
        json_fail(reader, "a time is out of range");
    else
        ret_time->us = us;
}

void lease_take_note(struct json_reader *reader, struct view *ret_note)
{
    struct view raw;
    if (!json_skip(reader, &raw))
        return;
    if (raw.size > NOTE_BYTES_MAX)
        json_fail(reader, "a note is too long");
    else
        *ret_note = raw;
}

static void take_lease_member(struct reading *reading, enum member member)
{
    struct json_reader *r = &reading->reader;
    struct lease *lease = reading->lease;
    switch (member) {
    case LEASE_ID: take_id(r, &lease->id); break;
    case HOLDER_ID: take_bounded_text(r, lease, HOLDER_BYTES_MAX, &lease->holder); break;
    case CHUNKS: take_scopes(reading, /* chunks */ true); break;
    case SCOPES: take_scopes(reading, /* chunks */ false); break;
    case SESSION: take_bounded_text(r, lease, NONCE_SIZE, &lease->session); break;
    case MODE: lease->wish.mode = (enum lease_mode)take_name(reading, mode_names, MODES); break;
    case TOKEN: json_take_u64(r, TOKEN_MAX, &lease->token); break;
    case LEVEL: json_take_u64(r, UINT32_MAX, &lease->wish.level); break;
    case STATUS:
        lease->status = (enum lease_status)take_name(reading, status_names, STATUSES);
        break;
    case POLL_MS: json_take_span_ms(r, &lease->wish.poll); break;
    case SLOTS: json_take_u64(r, UINT32_MAX, &lease->wish.slots); break;
    case TTL_MS: json_take_span_ms(r, &lease->wish.ttl); break;
    case RENEWALS: json_take_u64(r, INT64_MAX, &lease->renewals); break;
    case CLOCK: take_bounded_text(r, lease, CLOCK_ID_MAX, &lease->clock); break;
    case EXPIRES_US: take_store_time(r, &lease->expires); break;
    case ENDED_US: take_store_time(r, &lease->ended); break;
    case ONCE_PER_MS: json_take_span_ms(r, &lease->once_per); break;
    case GRANTED: take_lease_stamp(r, &lease->granted); break;
    case NONCE: take_bounded_text(r, lease, NONCE_SIZE, &lease->nonce); break;
    case ACQUIRED_AT: take_wall_time(r, &lease->acquired_at); break;
    case EXPIRES_AT: take_wall_time(r, &lease->expires_at); break;
    case PLACE: take_bounded_text(r, lease, HOLDER_BYTES_MAX, &lease->place); break;
    case OUTPUT: take_bounded_text(r, lease, OUTPUT_BYTES_MAX, &lease->output); break;
    case NOTE: lease_take_note(r, &lease->note); break;
    case UNKNOWN: check_unreachable();
    }
}

static void read_lease_members(struct reading *r)
{
    struct view name;
    unsigned next = 0;
    for (json_enter_object(&r->reader); json_next_member(&r->reader, &name);) {
        enum member member = find_lease_member(name, next);
        bool known = member != UNKNOWN &&
                     (member != POLL_MS || r->source->form != FORM_LEASE) &&
                     (member != PLACE || r->source->form == FORM_WAITER);
        if (!known) {
            json_keep_member(&r->reader, name, &r->unknown);
            continue;
        }
        if (r->found & BIT(member))
            json_fail(&r->reader, "a member occurs twice");
        r->found |= BIT(member);
        take_lease_member(r, member);
        next = member + 1;
    }
    json_end(&r->reader);
}

/* ---- Decoding ------------------------------------------------------------------------ */

static bool is_like(const struct lease *fields, const struct wanted *like)
{
    return like && fields->wish.scopes == like->wish.scopes;
}

/* Checks what a JSON reader cannot: that the members make sense together. */
static void check_members(struct reading *r)
{
    struct lease *lease = r->lease;
    const struct wanted *like = r->source->like;
    enum form form = r->source->form;
    /* A waiter without a wish of its own has the table's shared wish. */
    bool has_wish = r->found & WISH_BITS;
    if (form == FORM_WAITER && !has_wish && like)
        lease->wish = like->wish;
    if (form == FORM_WAITER && !has_wish && !like)
        json_fail(&r->reader, "neither the waiter nor the table says what it waits for");
    if (form != FORM_LEASE && (lease->wish.scope_count == 0 || lease->wish.poll.us == 0))
        json_fail(&r->reader, "a waiter without scopes or without a poll interval");
    if (form != FORM_WANTED && lease->id.size == 0)
        json_fail(&r->reader, "the lease_id is missing");
    if (form == FORM_LEASE && !view_equal(lease->id, r->source->name))
        json_fail(&r->reader, "the member name and the lease_id differ");
    if (lease->clock.size > 0 && lease->expires.us == 0 && lease->status == LEASE_ACTIVE)
        json_fail(&r->reader, "a clock without expires_us");
    if (form != FORM_WAITER)
        return;
    if (lease->session.size == 0)
        lease->session = view_first(lease->id, view_find(lease->id, '-'));
    if (lease->holder.size == 0)
        lease->holder = lease->session;
}

void *lease_allocate(size_t size, struct view name, struct view bytes, struct lease *ret_fields)
{
    size_t before = name.size > 0 ? sizeof ",\n\"\":" - 1 + name.size : sizeof ",\n" - 1;
    char *memory = malloc(size + before + bytes.size);
    if (!memory)
        return NULL;
    char *entry = memory + size, *at = entry;
    memcpy(at, ",\n", 2);
    at += 2;
    if (name.size > 0) {
        *at++ = '"';
        memcpy(at, name.data, name.size);
        at += name.size;
        memcpy(at, "\":", 2);
        at += 2;
    }
    memcpy(at, bytes.data, bytes.size);
    *ret_fields = (struct lease){ .bytes = { at, bytes.size },
                                  .entry = { entry, before + bytes.size },
                                  .users = 1 };
    return memory;
}

/* Reads all members; false if out of memory. */
static bool read_fields(struct reading *r)
{
    /* The buffer is reserved once, so that views into it stay valid. Twice the size is enough:
     * unescaping only shortens text, and the unknown members are part of the bytes. */
    struct lease *lease = r->lease;
    struct view bytes = lease->bytes;
    r->unknown = BUFFER_INIT(bytes.size);
    lease->unescaped = BUFFER_INIT(2 * bytes.size);
    bool plain = memchr(bytes.data, '\\', bytes.size) == NULL;
    if (plain || buffer_reserve(&lease->unescaped, 2 * bytes.size))
        read_lease_members(r);
    if (r->unknown.size > 0 && buffer_reserve(&lease->unescaped, r->unknown.size)) {
        lease->unknown.data = lease->unescaped.data + lease->unescaped.size;
        lease->unknown.size = r->unknown.size;
        buffer_append(&lease->unescaped, buffer_view(&r->unknown));
    }
    bool good = !r->unknown.failed && !lease->unescaped.failed;
    buffer_release(&r->unknown);
    return good;
}

static enum hf_status decode_object(const struct source *source, void **ret_memory,
                                    struct lease *ret_fields, struct hf_error *error)
{
    if (source->bytes.size > LEASE_BYTES_MAX)
        return error_set(error, HF_CORRUPT, "a lease is too large: %zu bytes",
                         source->bytes.size);
    void *memory = lease_allocate(source->size, source->name, source->bytes, ret_fields);
    if (!memory)
        return error_no_memory(error);
    struct reading r = { .reader = json_read(ret_fields->bytes),
                         .lease = ret_fields,
                         .source = source };
    bool whole = read_fields(&r);
    if (whole)
        check_members(&r);
    if (whole && !r.reader.why) {
        *ret_memory = memory;
        return HF_OK;
    }
    struct view id = view_first(ret_fields->id, 60);
    enum hf_status status =
        !whole ? error_no_memory(error)
        : r.later.size > 0
            ? error_set(
                  error, HF_UNSUPPORTED,
                  "lease %.*s: %s '%.*s', which this version does not know; upgrade Holdfast",
                  VIEW_ARGS(id), r.reader.why, VIEW_ARGS(r.later))
            : error_set(error, HF_CORRUPT, "lease %.*s: %s", VIEW_ARGS(id), r.reader.why);
    if (!is_like(ret_fields, source->like))
        free(ret_fields->wish.scopes);
    buffer_release(&ret_fields->unescaped);
    free(memory);
    return status;
}

enum hf_status lease_decode(struct view name, struct view bytes, struct lease **ret_lease,
                            struct hf_error *error)
{
    struct source source = {
        .form = FORM_LEASE, .size = sizeof(struct lease), .name = name, .bytes = bytes
    };
    struct lease fields;
    void *memory;
    enum hf_status status = decode_object(&source, &memory, &fields, error);
    if (status != HF_OK)
        return status;
    *ret_lease = memory;
    **ret_lease = fields;
    return HF_OK;
}

enum hf_status waiter_decode(struct view bytes, struct wanted *like,
                             struct waiter_entry **ret_waiter, struct hf_error *error)
{
    struct source source = {
        .form = FORM_WAITER, .size = sizeof(struct waiter_entry), .bytes = bytes, .like = like
    };
    struct lease fields;
    void *memory;
    enum hf_status status = decode_object(&source, &memory, &fields, error);
    if (status != HF_OK)
        return status;
    *ret_waiter = memory;
    **ret_waiter = (struct waiter_entry){ .asked = { .id = fields.id,
                                                     .holder = fields.holder,
                                                     .session = fields.session,
                                                     .place = fields.place,
                                                     .output = fields.output,
                                                     .note = fields.note,
                                                     .unknown = fields.unknown,
                                                     .wish = fields.wish },
                                          .like = is_like(&fields, like) ? like : NULL,
                                          .bytes = fields.bytes,
                                          .entry = fields.entry,
                                          .unescaped = fields.unescaped,
                                          .users = 1 };
    if ((*ret_waiter)->like)
        wanted_share(like);
    return HF_OK;
}

enum hf_status wanted_decode(struct view bytes, struct wanted **ret_wanted,
                             struct hf_error *error)
{
    struct source source = { .form = FORM_WANTED,
                             .size = sizeof(struct wanted),
                             .bytes = bytes };
    struct lease fields;
    void *memory;
    enum hf_status status = decode_object(&source, &memory, &fields, error);
    if (status != HF_OK)
        return status;
    *ret_wanted = memory;
    **ret_wanted = (struct wanted){
        .wish = fields.wish, .bytes = fields.bytes, .unescaped = fields.unescaped, .users = 1
    };
    return HF_OK;
}

/* ---- Comparing ----------------------------------------------------------------------- */

bool lease_unchanged(const struct lease *a, const struct lease *b)
{
    if (RULE(WATCH_ANEW_WHEN_RENEWED) &&
        (a->renewals != b->renewals || !view_equal(a->nonce, b->nonce)))
        return false;
    return view_equal(a->id, b->id) && a->token == b->token;
}
