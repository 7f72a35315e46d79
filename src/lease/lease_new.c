/* SPDX-License-Identifier: Apache-2.0 */
/* lease_new.c: creates leases, waiters and shared terms. Each is encoded, and then decoded from its
 * own bytes, so its fields and its bytes never differ. Only a lease whose fields are sure to be
 * read back as they are is not decoded (`reads_back`), because that takes as long as all of its
 * grant. */
#include "base/instant.h"
#include "base/json.h"
#include "base/limits.h"
#include "lease/lease_inside.h"
#include "lease/table_inside.h"

#include <stdlib.h>

/* ---- Creating ------------------------------------------------------------------------ */

/* Most leases fit into this size, so that the buffer need not grow. */
#define LEASE_BYTES_USUAL 500

static struct buffer new_text(void)
{
    struct buffer out = BUFFER_INIT(LEASE_BYTES_MAX);
    buffer_reserve(&out, LEASE_BYTES_USUAL);
    return out;
}

/* Frees the text. If the text was too long or could not be read back, the caller's fields were
 * invalid, and nothing in the store is damaged. So the status is INVALID, not CORRUPT. */
static enum hf_status finish_new(struct buffer *out, enum hf_status status,
                                 struct hf_error *error)
{
    if (out->failed)
        status = out->size + KEY_BYTES_MAX > LEASE_BYTES_MAX
                     ? error_set(error, HF_INVALID, "a lease can have at most %zu bytes",
                                 LEASE_BYTES_MAX)
                     : error_no_memory(error);
    buffer_release(out);
    return status == HF_CORRUPT ? error_set(error, HF_INVALID, "%s", error ? error->why : "")
                                : status;
}

struct lease lease_asked(const struct lease_request *asked)
{
    return (struct lease){ .id = asked->id,
                           .holder = asked->holder,
                           .session = asked->session,
                           .output = asked->output,
                           .note = asked->note,
                           .unknown = asked->unknown,
                           .wish = asked->wish };
}

/* Whether the bytes of a lease with these fields would be decoded to the same fields, provided that
 * its texts were written as they are, and that its scope and its note are valid. Not so if it has
 * members that are rare, so that they are not worth the effort. */
static bool reads_back(const struct lease *fields)
{
    const struct lease_wish *wish = &fields->wish;
    bool texts_fit = fields->id.size > 0 && fields->id.size <= HOLDER_BYTES_MAX &&
                     fields->holder.size <= HOLDER_BYTES_MAX &&
                     fields->session.size <= NONCE_SIZE && fields->nonce.size <= NONCE_SIZE &&
                     fields->clock.size <= CLOCK_ID_MAX &&
                     fields->output.size <= OUTPUT_BYTES_MAX;
    bool numbers_fit = fields->token <= TOKEN_MAX && wish->level <= UINT32_MAX &&
                       wish->slots <= UINT32_MAX && fields->renewals <= INT64_MAX &&
                       wish->ttl.us >= 0 && wish->ttl.us <= LEASE_TTL_MAX.us &&
                       wish->ttl.us % 1000 == 0;
    bool times_fit = fields->expires.us >= 0 && fields->expires.us <= MOMENT_FAR &&
                     (fields->clock.size == 0 || fields->expires.us > 0) &&
                     fields->acquired_at.us >= 0 && fields->expires_at.us >= 0 &&
                     fields->acquired_at.us / 1000000 <= INSTANT_S_MAX &&
                     fields->expires_at.us / 1000000 <= INSTANT_S_MAX;
    bool usual = wish->scope_count == 1 && wish->scopes[0].kind != SCOPE_CHUNK &&
                 wish->poll.us == 0 && fields->place.size == 0 && fields->unknown.size == 0 &&
                 fields->ended.us == 0 && fields->once_per.us == 0 &&
                 fields->granted.clock == 0 && fields->granted.us == 0;
    return texts_fit && numbers_fit && times_fit && usual;
}

/* Makes the text refer to the bytes. False if it is not there as it is, between two quotes: it may
 * also be the end of a longer text that it was changed to. */
static bool place_text(struct view *text, struct view bytes, size_t at)
{
    struct view there = view_from(bytes, at);
    if (text->size == 0)
        *text = VIEW("");
    else if (bytes.data[at - 1] == '"' && view_starts_with(there, *text) &&
             there.data[text->size] == '"')
        text->data = there.data;
    else
        return false;
    return true;
}

static bool place_note(struct view *note, struct view bytes, size_t at)
{
    struct json_reader reader = json_read(view_first(view_from(bytes, at), note->size));
    struct view whole = VIEW("");
    if (note->size > 0)
        lease_take_note(&reader, &whole);
    if (reader.why || whole.size != note->size)
        return false;
    *note = whole;
    return true;
}

static bool place_scope(struct scope *scope, struct view bytes, size_t at)
{
    struct json_reader reader = json_read(view_from(bytes, at));
    struct view text;
    return json_enter_array(&reader) && json_next_element(&reader) &&
           json_take_plain(&reader, &text) && text.size <= SCOPE_TEXT_MAX &&
           scope_parse(text, scope, NULL) == HF_OK;
}

/* A lease of these fields and of the bytes that they were encoded to; NULL if the bytes must be
 * decoded. */
static enum hf_status take_over(const struct lease *fields, const struct lease_positions *at,
                                struct view bytes, struct lease **ret_lease,
                                struct hf_error *error)
{
    *ret_lease = NULL;
    if (!reads_back(fields))
        return HF_OK;
    struct lease own;
    struct lease *lease = lease_allocate(sizeof *lease, fields->id, bytes, &own);
    struct scope *scope = malloc(sizeof *scope);
    if (!lease || !scope) {
        free(lease);
        free(scope);
        return error_no_memory(error);
    }
    *lease = *fields;
    lease->wish.scopes = scope;
    lease->bytes = own.bytes;
    lease->entry = own.entry;
    lease->users = own.users;
    lease->unescaped = BUFFER_INIT(2 * bytes.size);
    lease->acquired_at.us -= lease->acquired_at.us % 1000; /* as they were written */
    lease->expires_at.us -= lease->expires_at.us % 1000;
    if (place_text(&lease->id, own.bytes, at->id) &&
        place_text(&lease->holder, own.bytes, at->holder) &&
        place_text(&lease->session, own.bytes, at->session) &&
        place_text(&lease->clock, own.bytes, at->clock) &&
        place_text(&lease->nonce, own.bytes, at->nonce) &&
        place_text(&lease->output, own.bytes, at->output) &&
        place_note(&lease->note, own.bytes, at->note) &&
        place_scope(scope, own.bytes, at->scopes)) {
        *ret_lease = lease;
        return HF_OK;
    }
    free(scope);
    free(lease);
    return HF_OK;
}

enum hf_status lease_new(const struct lease *fields, struct lease **ret_lease,
                         struct hf_error *error)
{
    struct buffer out = new_text();
    enum hf_status status = HF_OK;
    struct lease_positions at = lease_encode(fields, &out);
    if (!out.failed)
        status = take_over(fields, &at, buffer_view(&out), ret_lease, error);
    if (!out.failed && status == HF_OK && !*ret_lease)
        status = lease_decode(fields->id, buffer_view(&out), ret_lease, error);
    if (!out.failed && status == HF_OK)
        (*ret_lease)->seen = fields->seen;
    return finish_new(&out, status, error);
}

enum hf_status waiter_new(const struct lease_request *asked, struct wanted *like,
                          struct waiter_entry **ret_waiter, struct hf_error *error)
{
    struct buffer out = new_text();
    enum hf_status status = HF_OK;
    waiter_encode(asked, like != NULL, &out);
    if (!out.failed)
        status = waiter_decode(buffer_view(&out), like, ret_waiter, error);
    return finish_new(&out, status, error);
}

enum hf_status wanted_new(const struct lease_wish *wish, struct wanted **ret_wanted,
                          struct hf_error *error)
{
    struct buffer out = new_text();
    enum hf_status status = HF_OK;
    wanted_encode(wish, &out);
    if (!out.failed)
        status = wanted_decode(buffer_view(&out), ret_wanted, error);
    return finish_new(&out, status, error);
}
