/* lease.c: a lease and its JSON: encoding and decoding side by side. */
#include "lease/lease.h"

#include "base/check.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/rule.h"

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

/* A name of ours, which needs no escapes. */
static void write_name(struct buffer *out, struct view name)
{
    buffer_append(out, VIEW(",\""));
    buffer_append(out, name);
    buffer_append(out, VIEW("\":"));
}

static void write_text(struct buffer *out, struct view name, struct view value)
{
    if (value.size == 0)
        return;
    write_name(out, name);
    json_write_string(out, value);
}

static void write_number(struct buffer *out, struct view name, int64_t value)
{
    if (value == 0)
        return;
    write_name(out, name);
    buffer_append_i64(out, value);
}

static void write_time(struct buffer *out, struct view name, struct wall_time time)
{
    char text[TIME_TEXT_MAX];
    if (time.us != 0)
        write_text(out, name, view_of(time_text(time, text)));
}

static void write_stamp(struct buffer *out, struct view name, struct stamp stamp)
{
    char text[STAMP_TEXT_MAX];
    if (stamp.clock != 0)
        write_text(out, name, view_of(stamp_text(stamp, text)));
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
        if (first)
            write_name(out, chunks ? VIEW("chunks") : VIEW("scopes"));
        buffer_append_byte(out, first ? '[' : ',');
        json_write_string(out, chunks ? scope->name : view_of(scope_text(scope, text)));
        first = false;
    }
    if (!first)
        buffer_append_byte(out, ']');
}

/* What one who waits wants. */
static void write_wish(struct buffer *out, const struct lease *lease)
{
    write_scopes(out, lease, /* chunks */ true);
    write_scopes(out, lease, /* chunks */ false);
    if (lease->mode != LEASE_EXCLUSIVE)
        write_text(out, VIEW("mode"), view_of(mode_names[lease->mode]));
    write_number(out, VIEW("level"), (int64_t)lease->level);
    write_number(out, VIEW("poll_ms"), lease->poll.us / 1000);
    write_number(out, VIEW("slots"), (int64_t)lease->slots);
    write_number(out, VIEW("ttl_ms"), lease->ttl.us / 1000);
}

static void write_standing(struct buffer *out, const struct lease *lease)
{
    write_text(out, VIEW("holder_id"), lease->holder);
    write_scopes(out, lease, /* chunks */ true);
    write_scopes(out, lease, /* chunks */ false);
    write_text(out, VIEW("session"), lease->session);
    write_text(out, VIEW("mode"), view_of(mode_names[lease->mode]));
    buffer_append(out, VIEW(",\"token\":"));
    buffer_append_u64(out, lease->token);
    buffer_append(out, VIEW(",\"level\":"));
    buffer_append_u64(out, lease->level);
    write_text(out, VIEW("status"), view_of(status_names[lease->status]));
    write_number(out, VIEW("slots"), (int64_t)lease->slots);
    write_number(out, VIEW("ttl_ms"), lease->ttl.us / 1000);
    write_number(out, VIEW("renewals"), (int64_t)lease->renewals);
    write_text(out, VIEW("clock"), lease->clock);
    write_number(out, VIEW("expires_us"), lease->expires.us);
    write_number(out, VIEW("ended_us"), lease->ended.us);
    write_number(out, VIEW("once_per_ms"), lease->once_per.us / 1000);
    write_stamp(out, VIEW("granted"), lease->granted);
    write_text(out, VIEW("nonce"), lease->nonce);
    write_time(out, VIEW("acquired_at"), lease->acquired_at);
    write_time(out, VIEW("expires_at"), lease->expires_at);
}

static bool waits(const struct lease *lease)
{
    return lease->poll.us > 0;
}

static void encode(const struct lease *lease, struct buffer *out)
{
    buffer_append(out, VIEW("{\"lease_id\":"));
    json_write_string(out, lease->id);
    if (!waits(lease)) {
        write_standing(out, lease);
    } else {
        if (!view_equal(lease->holder, lease->session))
            write_text(out, VIEW("holder_id"), lease->holder);
        if (!lease->like)
            write_wish(out, lease);
    }
    write_text(out, VIEW("output"), lease->output);
    if (lease->note.size > 0) {
        buffer_append(out, VIEW(",\"note\":"));
        buffer_append(out, lease->note);
    }
    buffer_append(out, lease->unknown);
    buffer_append_byte(out, '}');
}

static void encode_wanted(const struct lease *lease, struct buffer *out)
{
    check(waits(lease));
    write_wish(out, lease);
    if (out->size > 0)
        out->data[0] = '{'; /* where the first comma stood */
    buffer_append_byte(out, '}');
}

/* ---- Reading members ----------------------------------------------------------------- */

/* In the order in which we write them, so that each is found right behind the one before. */
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
    [OUTPUT] = { "output", 6 },
    [NOTE] = { "note", 4 },
};

#define BIT(member) (UINT32_C(1) << (member))

/* What one who waits says all of, or nothing. */
#define WISH_BITS                                                                     \
    (BIT(CHUNKS) | BIT(SCOPES) | BIT(MODE) | BIT(LEVEL) | BIT(POLL_MS) | BIT(SLOTS) | \
     BIT(TTL_MS))

/* What an object of a document is. */
enum form { FORM_LEASE, FORM_WAITER, FORM_WANTED };

struct reading {
    struct json_reader reader;
    struct lease *lease;
    enum form form;
    uint32_t found;        /* members, as bits */
    struct buffer unknown; /* the other members, as they stand */
    struct view later;     /* a word that only a later version can have written; empty: none */
};

static enum member member_of(struct view name, unsigned start)
{
    for (unsigned i = 0; i < UNKNOWN; i++) {
        unsigned member = (start + i) % UNKNOWN;
        if (view_equal(name, member_names[member]))
            return (enum member)member;
    }
    return UNKNOWN;
}

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

/* Ids stand in several places of a table and are compared as they stand there. */
static void take_id(struct json_reader *reader, struct view *ret_id)
{
    struct view id;
    if (!json_take_plain(reader, &id))
        return;
    if (id.size > HOLDER_BYTES_MAX)
        json_fail(reader, "an id that is too long");
    else
        *ret_id = id;
}

/* Whether it looks like a word of ours, though we do not know it. */
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

/* A word that is none of ours: of a later version, or damage. */
static void note_strange(struct reading *r, struct view word, const char *why)
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
    size_t index = text.size > 0 ? index_of(text, names, count) : count;
    if (index == count)
        note_strange(r, text, "an unknown word");
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

static void take_stamp(struct json_reader *reader, struct stamp *ret_stamp)
{
    struct view text;
    if (json_take_plain(reader, &text) && !stamp_parse(text, ret_stamp))
        json_fail(reader, "a bad stamp");
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

static void take_scopes(struct reading *r, bool chunks)
{
    struct json_reader *reader = &r->reader;
    for (json_enter_array(reader); json_next_element(reader);) {
        struct view text = VIEW("");
        struct scope scope = { .kind = SCOPE_CHUNK };
        take_text(reader, r->lease, SCOPE_TEXT_MAX, &text);
        scope.name = text;
        if (!chunks && !scope_kind_known(text))
            note_strange(r, view_first(text, view_find(text, ':')), "an unknown kind of scope");
        else if (!chunks && scope_parse(text, &scope, NULL) != HF_OK)
            json_fail(reader, "a bad scope");
        else if (!reader->why)
            add_scope(reader, r->lease, &scope);
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

static void take_member(struct reading *reading, enum member member)
{
    struct json_reader *r = &reading->reader;
    struct lease *lease = reading->lease;
    switch (member) {
    case LEASE_ID: take_id(r, &lease->id); break;
    case HOLDER_ID: take_text(r, lease, HOLDER_BYTES_MAX, &lease->holder); break;
    case CHUNKS: take_scopes(reading, /* chunks */ true); break;
    case SCOPES: take_scopes(reading, /* chunks */ false); break;
    case SESSION: take_text(r, lease, NONCE_SIZE, &lease->session); break;
    case MODE: lease->mode = (enum lease_mode)take_name(reading, mode_names, MODES); break;
    case TOKEN: json_take_u64(r, (UINT64_C(1) << 53) - 1, &lease->token); break;
    case LEVEL: json_take_u64(r, UINT32_MAX, &lease->level); break;
    case STATUS:
        lease->status = (enum lease_status)take_name(reading, status_names, STATUSES);
        break;
    case POLL_MS: take_span_ms(r, &lease->poll); break;
    case SLOTS: json_take_u64(r, UINT32_MAX, &lease->slots); break;
    case TTL_MS: take_span_ms(r, &lease->ttl); break;
    case RENEWALS: json_take_u64(r, INT64_MAX, &lease->renewals); break;
    case CLOCK: take_text(r, lease, CLOCK_ID_MAX, &lease->clock); break;
    case EXPIRES_US: take_store_time(r, &lease->expires); break;
    case ENDED_US: take_store_time(r, &lease->ended); break;
    case ONCE_PER_MS: take_span_ms(r, &lease->once_per); break;
    case GRANTED: take_stamp(r, &lease->granted); break;
    case NONCE: take_text(r, lease, NONCE_SIZE, &lease->nonce); break;
    case ACQUIRED_AT: take_wall(r, &lease->acquired_at); break;
    case EXPIRES_AT: take_wall(r, &lease->expires_at); break;
    case OUTPUT: take_text(r, lease, OUTPUT_BYTES_MAX, &lease->output); break;
    case NOTE: take_note(r, &lease->note); break;
    case UNKNOWN: check_unreachable();
    }
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

static void read_members(struct reading *r)
{
    struct view name;
    unsigned next = 0;
    for (json_enter_object(&r->reader); json_next_member(&r->reader, &name);) {
        enum member member = member_of(name, next);
        bool known = member != UNKNOWN && (member != POLL_MS || r->form != FORM_LEASE);
        if (!known) {
            keep_unknown(&r->reader, name, &r->unknown);
            continue;
        }
        if (r->found & BIT(member))
            json_fail(&r->reader, "a member that stands twice");
        r->found |= BIT(member);
        take_member(r, member);
        next = member + 1;
    }
    json_end(&r->reader);
}

/* ---- Decoding ------------------------------------------------------------------------ */

/* What one who waits does not say is as the others want it. */
static void take_wish(struct reading *r, struct lease *like)
{
    struct lease *lease = r->lease;
    if (r->found & WISH_BITS)
        return;
    if (!like) {
        json_fail(&r->reader, "nothing says what it waits for");
        return;
    }
    lease->like = lease_share(like);
    lease->scopes = like->scopes;
    lease->scope_count = like->scope_count;
    lease->mode = like->mode;
    lease->level = like->level;
    lease->poll = like->poll;
    lease->slots = like->slots;
    lease->ttl = like->ttl;
}

/* What it must be besides being JSON of the right types. */
static void judge_members(struct reading *r, struct view name, struct lease *like)
{
    struct lease *lease = r->lease;
    if (r->form == FORM_WAITER)
        take_wish(r, like);
    if (r->form != FORM_LEASE && (lease->scope_count == 0 || !waits(lease)))
        json_fail(&r->reader, "it waits for nothing");
    if (r->form != FORM_WANTED && lease->id.size == 0)
        json_fail(&r->reader, "it has no id");
    if (r->form == FORM_LEASE && !view_equal(lease->id, name))
        json_fail(&r->reader, "its name and its id differ");
    if (lease->clock.size > 0 && lease->expires.us == 0 && lease->status == LEASE_ACTIVE)
        json_fail(&r->reader, "a clock, and no end on it");
    if (r->form != FORM_WAITER)
        return;
    if (lease->session.size == 0)
        lease->session = view_first(lease->id, view_find(lease->id, '-'));
    if (lease->holder.size == 0)
        lease->holder = lease->session;
}

/* An empty lease with room for its bytes, which are copied, and for what stands before them in
 * a table. */
static struct lease *allocate(enum form form, struct view name, struct view bytes)
{
    size_t before = form == FORM_LEASE ? sizeof ",\n\"\":" - 1 + name.size : sizeof ",\n" - 1;
    struct lease *lease = malloc(sizeof *lease + before + bytes.size);
    if (!lease)
        return NULL;
    char *entry = (char *)(lease + 1), *at = entry;
    memcpy(at, ",\n", 2);
    at += 2;
    if (form == FORM_LEASE) {
        *at++ = '"';
        memcpy(at, name.data, name.size);
        at += name.size;
        memcpy(at, "\":", 2);
        at += 2;
    }
    memcpy(at, bytes.data, bytes.size);
    *lease = (struct lease){ .bytes = { at, bytes.size },
                             .entry = { entry, before + bytes.size },
                             .users = 1 };
    return lease;
}

/* Reads all members. False without memory. */
static bool read_all(struct reading *r)
{
    /* Reserved in whole, so that views into it stay where they are. Undoing escapes shortens,
     * and what is unknown is a part of the bytes. */
    struct lease *lease = r->lease;
    struct view bytes = lease->bytes;
    r->unknown = BUFFER_INIT(bytes.size);
    lease->unescaped = BUFFER_INIT(2 * bytes.size);
    bool plain = memchr(bytes.data, '\\', bytes.size) == NULL;
    if (plain || buffer_reserve(&lease->unescaped, 2 * bytes.size))
        read_members(r);
    if (r->unknown.size > 0 && buffer_reserve(&lease->unescaped, r->unknown.size)) {
        lease->unknown.data = lease->unescaped.data + lease->unescaped.size;
        lease->unknown.size = r->unknown.size;
        buffer_append(&lease->unescaped, buffer_view(&r->unknown));
    }
    bool good = !r->unknown.failed && !lease->unescaped.failed;
    buffer_release(&r->unknown);
    return good;
}

static enum hf_status decode(enum form form, struct view name, struct view bytes,
                             struct lease *like, struct lease **ret_lease,
                             struct hf_error *error)
{
    if (bytes.size > LEASE_BYTES_MAX)
        return error_set(error, HF_CORRUPT, "a lease of %zu bytes", bytes.size);
    struct lease *lease = allocate(form, name, bytes);
    if (!lease)
        return error_no_memory(error);
    struct reading r = { .reader = json_read(lease->bytes), .lease = lease, .form = form };
    if (!read_all(&r)) {
        lease_free(lease);
        return error_no_memory(error);
    }
    judge_members(&r, name, like);
    if (!r.reader.why) {
        *ret_lease = lease;
        return HF_OK;
    }
    struct view id = view_first(lease->id, 60);
    enum hf_status status =
        r.later.size > 0
            ? error_set(error, HF_UNSUPPORTED,
                        "lease %.*s: %s, '%.*s', which this version does not know: upgrade",
                        VIEW_ARGS(id), r.reader.why, VIEW_ARGS(r.later))
            : error_set(error, HF_CORRUPT, "lease %.*s: %s", VIEW_ARGS(id), r.reader.why);
    lease_free(lease);
    return status;
}

enum hf_status lease_decode(struct view name, struct view bytes, struct lease **ret_lease,
                            struct hf_error *error)
{
    return decode(FORM_LEASE, name, bytes, NULL, ret_lease, error);
}

enum hf_status waiter_decode(struct view bytes, struct lease *like, struct lease **ret_lease,
                             struct hf_error *error)
{
    return decode(FORM_WAITER, VIEW(""), bytes, like, ret_lease, error);
}

enum hf_status wanted_decode(struct view bytes, struct lease **ret_wanted,
                             struct hf_error *error)
{
    return decode(FORM_WANTED, VIEW(""), bytes, NULL, ret_wanted, error);
}

/* ---- Making -------------------------------------------------------------------------- */

/* Most need no more: their buffer need not grow. */
#define LEASE_BYTES_USUAL 500

static enum hf_status make(enum form form, const struct lease *fields, struct lease **ret_lease,
                           struct hf_error *error)
{
    struct buffer out = BUFFER_INIT(LEASE_BYTES_MAX);
    buffer_reserve(&out, LEASE_BYTES_USUAL);
    if (form == FORM_WANTED)
        encode_wanted(fields, &out);
    else
        encode(fields, &out);
    if (out.failed) {
        bool too_long = out.size + KEY_BYTES_MAX > LEASE_BYTES_MAX;
        buffer_release(&out);
        return too_long ? error_set(error, HF_INVALID, "a lease has at most %zu bytes",
                                    LEASE_BYTES_MAX)
                        : error_no_memory(error);
    }
    enum hf_status status =
        decode(form, fields->id, buffer_view(&out), fields->like, ret_lease, error);
    buffer_release(&out);
    if (status == HF_CORRUPT) /* the fields are at fault, not the store */
        return error_set(error, HF_INVALID, "%s", error ? error->why : "");
    if (status == HF_OK)
        (*ret_lease)->seen = fields->seen;
    return status;
}

enum hf_status lease_new(const struct lease *fields, struct lease **ret_lease,
                         struct hf_error *error)
{
    return make(waits(fields) ? FORM_WAITER : FORM_LEASE, fields, ret_lease, error);
}

enum hf_status wanted_new(const struct lease *fields, struct lease **ret_wanted,
                          struct hf_error *error)
{
    return make(FORM_WANTED, fields, ret_wanted, error);
}

struct lease *lease_share(struct lease *lease)
{
    lease->users++;
    return lease;
}

void lease_free(struct lease *lease)
{
    if (!lease)
        return;
    check(lease->users > 0);
    if (--lease->users > 0)
        return;
    if (lease->like)
        lease_free(lease->like); /* whose the scopes are */
    else
        free(lease->scopes);
    buffer_release(&lease->unescaped);
    free(lease);
}

/* ---- Comparing ----------------------------------------------------------------------- */

bool lease_unchanged(const struct lease *a, const struct lease *b)
{
    bool renewed = a->renewals != b->renewals || !view_equal(a->nonce, b->nonce);
    return view_equal(a->id, b->id) && a->token == b->token &&
           (!renewed || !RULE(WATCH_ANEW_WHEN_RENEWED));
}

bool leases_conflict(const struct lease *a, const struct lease *b)
{
    if (a->scope_count == 0 || b->scope_count == 0)
        return true;
    bool both = a->mode == LEASE_SHARED && b->mode == LEASE_SHARED;
    bool either = a->mode == LEASE_SHARED || b->mode == LEASE_SHARED;
    if (RULE(SHARED_BESIDE_SHARED_ONLY) ? both : either)
        return false;
    size_t most = RULE(EVERY_SCOPE_COUNTS) ? SIZE_MAX : 1;
    for (size_t i = 0; i < a->scope_count && i < most; i++)
        for (size_t k = 0; k < b->scope_count && k < most; k++)
            if (scope_conflicts(&a->scopes[i], &b->scopes[k]))
                return true;
    return false;
}

static bool has_scope(const struct lease *lease, const struct scope *scope, size_t start)
{
    for (size_t i = 0; i < lease->scope_count; i++)
        if (scope_equal(&lease->scopes[(start + i) % lease->scope_count], scope))
            return true;
    return false;
}

bool leases_same_scopes(const struct lease *a, const struct lease *b)
{
    if (a->scope_count != b->scope_count)
        return false;
    bool same = true;
    for (size_t i = 0; same && a->scopes != b->scopes && i < a->scope_count; i++)
        same = has_scope(b, &a->scopes[i], i) && has_scope(a, &b->scopes[i], i);
    return same;
}

bool leases_same_wish(const struct lease *a, const struct lease *b)
{
    return a->mode == b->mode && a->slots == b->slots && leases_same_scopes(a, b);
}
