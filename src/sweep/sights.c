/* SPDX-License-Identifier: Apache-2.0 */
/* sights.c: notes when a sweep first saw an object that nothing names, for stores whose dates
 * prove nothing. Each note is a stamp (base/stamp.h). After another boot the time is counted anew,
 * but only a limited number of times. If a note is missing or unreadable, the object counts as not
 * seen, so it is kept too long rather than deleted too early. */
#include "base/json.h"
#include "base/stamp.h"
#include "sweep/sweep_inside.h"

#include <stdio.h>

/* Larger than any note. */
#define SIGHT_BYTES_MAX ((size_t)1024)

struct sight {
    struct stamp since;
    uint64_t restamps;
    struct etag etag; /* of the note; empty: there is none */
};

/* False if the key is too long. */
static bool sight_key(struct view about, char ret_key[KEY_BYTES_MAX + 1])
{
    int size =
        snprintf(ret_key, KEY_BYTES_MAX + 1, LAYOUT_SIGHT_FOLDER "%.*s", VIEW_ARGS(about));
    return size > 0 && size <= KEY_BYTES_MAX;
}

static bool decode_sight(struct view text, struct sight *sight)
{
    struct json_reader reader = json_read(text);
    struct view name, raw, format = VIEW(""), since = VIEW("");
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("format")))
            json_take_plain(&reader, &format);
        else if (view_equal(name, VIEW("since")))
            json_take_plain(&reader, &since);
        else if (view_equal(name, VIEW("restamps")))
            json_take_u64(&reader, UINT64_MAX, &sight->restamps);
        else
            json_skip(&reader, &raw);
    }
    return json_end(&reader) && view_equal(format, VIEW(LAYOUT_SIGHT_FORMAT)) &&
           stamp_parse(since, &sight->since);
}

/* An unreadable note counts as missing. It is replaced by a write on condition of its ETag. */
static enum hf_status read_sight(struct sweep_run *run, const char *key, struct sight *sight,
                                 struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(SIGHT_BYTES_MAX);
    struct get_call get = { .key = view_of(key), .body = &text, .deadline = run_deadline(run) };
    enum hf_status status = client_get(run->client, &get);
    *sight = (struct sight){ .etag = get.info.etag };
    if (status == HF_OK && !decode_sight(buffer_view(&text), sight))
        *sight = (struct sight){ .etag = get.info.etag };
    buffer_release(&text);
    if (status == HF_OK || status == HF_NOT_FOUND || status == HF_INVALID)
        return HF_OK;
    *error = get.error;
    return status;
}

/* If the write conflicts, another client has written the note, which serves the same purpose. */
static enum hf_status write_sight(struct sweep_run *run, const char *key,
                                  const struct sight *before, const struct evidence *evidence,
                                  struct hf_error *error)
{
    char since[STAMP_TEXT_MAX], text[256];
    bool anew = before->since.us != 0;
    stamp_text(stamp_now(evidence), since);
    snprintf(text, sizeof text,
             "{ \"format\": \"" LAYOUT_SIGHT_FORMAT
             "\", \"since\": \"%s\", \"restamps\": %u }\n",
             since, (unsigned)(before->restamps + anew));
    struct put_call put = {
        .key = view_of(key), .body = view_of(text), .quiet = true, .deadline = run_deadline(run)
    };
    put.condition = before->etag.size > 0 ? if_match(&before->etag) : if_absent();
    enum hf_status status = store_put(client_store(run->client), &put);
    if (status == HF_OK || status == HF_CONFLICT || status == HF_NOT_FOUND)
        return HF_OK;
    *error = put.error;
    return status;
}

enum hf_status sight_passed(struct sweep_run *run, struct view about, struct span span,
                            bool *ret_passed, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct sight sight;
    *ret_passed = false;
    if (!sight_key(about, key))
        return HF_OK;
    enum hf_status status = read_sight(run, key, &sight, error);
    if (status != HF_OK)
        return status;
    struct evidence evidence = run_evidence(run);
    bool seen = sight.since.us != 0;
    if (seen && stamp_is_readable(sight.since, &evidence)) {
        *ret_passed = stamp_passed(sight.since, evidence.now, span,
                                   client_settings(run->client)->skew_tolerance, &evidence);
        return HF_OK;
    }
    bool stamps = stamp_now(&evidence).clock != 0 && !run->options->dry_run;
    if (!stamps || sight.restamps >= STAMP_RESTAMPS_MAX)
        return HF_OK;
    return write_sight(run, key, &sight, &evidence, error);
}

enum hf_status sight_forget(struct sweep_run *run, struct view about, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    if (!sight_key(about, key) || run->options->dry_run)
        return HF_OK;
    struct delete_call call = { .key = view_of(key), .deadline = run_deadline(run) };
    enum hf_status status = store_delete(client_store(run->client), &call);
    if (status == HF_OK || status == HF_NOT_FOUND)
        return HF_OK;
    *error = call.error;
    return status;
}
