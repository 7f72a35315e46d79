/* SPDX-License-Identifier: Apache-2.0 */
/* timeline.c: reads who held a lock when, as the server has noted it. */
#include "client/client.h"
#include "client/wire.h"

#include <stdio.h>

#define TIMELINE_BYTES_MAX (8 * MIB)

/* One hold, as the server tells it. */
struct listed_hold {
    uint64_t token;
    char owner[HF_HOLDER_MAX + 1], holder[HF_HOLDER_MAX + 1], mode[16];
    char scope[HF_SCOPE_TEXT_MAX], began[16], ended[16];
    char ended_by[HF_HOLDER_MAX + 1], reason[NOTE_BYTES_MAX + 1];
    int64_t began_ms, began_precision_ms, ended_ms, ended_precision_ms, expires_ms;
};

static const struct wire_field hold_fields[] = {
#define FIELD(name, type, member) WIRE_FIELD(struct listed_hold, name, type, member)
    FIELD("fencing_token", WIRE_U64, token),
    FIELD("owner", WIRE_WORDS, owner),
    FIELD("holder", WIRE_WORDS, holder),
    FIELD("mode", WIRE_TEXT, mode),
    FIELD("scope", WIRE_TEXT, scope),
    FIELD("began", WIRE_TEXT, began),
    FIELD("began_ms", WIRE_I64, began_ms),
    FIELD("began_precision_ms", WIRE_I64, began_precision_ms),
    FIELD("ended", WIRE_TEXT, ended),
    FIELD("ended_ms", WIRE_I64, ended_ms),
    FIELD("ended_precision_ms", WIRE_I64, ended_precision_ms),
    FIELD("expires_ms", WIRE_I64, expires_ms),
    FIELD("ended_by", WIRE_WORDS, ended_by),
    FIELD("reason", WIRE_WORDS, reason),
#undef FIELD
};

/* What the reply says besides the holds. */
struct listed_timeline {
    int64_t now_ms, complete_since_ms;
    uint64_t dropped;
    struct view holds; /* the JSON of an array */
};

static const struct wire_field timeline_fields[] = {
#define FIELD(name, type, member) WIRE_FIELD(struct listed_timeline, name, type, member)
    FIELD("now_ms", WIRE_I64, now_ms),
    FIELD("complete_since_ms", WIRE_I64, complete_since_ms),
    FIELD("dropped", WIRE_U64, dropped),
    FIELD("holds", WIRE_RAW, holds),
#undef FIELD
};

/* False if the caller stops the list. */
static bool report_hold(struct server_timeline *timeline, const struct listed_hold *row)
{
    struct hf_hold hold = { .struct_size = sizeof hold,
                            .token = row->token,
                            .owner = row->owner,
                            .holder = row->holder,
                            .mode = wire_mode(row->mode),
                            .scope = row->scope,
                            .began = row->began,
                            .began_at_ms = row->began_ms,
                            .began_precision_ms = row->began_precision_ms,
                            .ended = row->ended,
                            .ended_at_ms = row->ended_ms,
                            .ended_precision_ms = row->ended_precision_ms,
                            .expires_at_ms = row->ended[0] ? 0 : row->expires_ms,
                            .ended_by = row->ended_by,
                            .reason = row->reason };
    return timeline->each(timeline->argument, &hold);
}

/* A time without a precision is what the holder wrote. */
static enum hf_status read_holds(struct server_timeline *timeline, struct view json,
                                 struct hf_error *error)
{
    struct json_reader reader = json_read(json);
    bool goes_on = timeline->each != NULL;
    json_enter_array(&reader);
    while (goes_on && json_next_element(&reader)) {
        struct listed_hold row = { .began_precision_ms = HF_TIME_OF_HOLDER,
                                   .ended_precision_ms = HF_TIME_OF_HOLDER };
        if (wire_take(&reader, hold_fields, sizeof hold_fields / sizeof hold_fields[0], &row))
            goes_on = report_hold(timeline, &row);
    }
    return goes_on && !json_end(&reader) ? wire_invalid(reader.why, error) : HF_OK;
}

static enum hf_status read_timeline(struct server_timeline *timeline, struct view json,
                                    struct hf_error *error)
{
    struct json_reader reader = json_read(json);
    struct listed_timeline listed = { .holds = VIEW("") };
    wire_take(&reader, timeline_fields, sizeof timeline_fields / sizeof timeline_fields[0],
              &listed);
    if (!json_end(&reader) || listed.holds.size == 0)
        return wire_invalid(reader.why, error);
    timeline->info->now_ms = listed.now_ms;
    timeline->info->complete_since_ms = listed.complete_since_ms;
    timeline->info->dropped = listed.dropped;
    timeline->begin(timeline);
    return read_holds(timeline, listed.holds, error);
}

enum hf_status timeline_at_server(struct server_timeline *timeline, struct hf_error *error)
{
    struct buffer path = BUFFER_INIT((size_t)SERVER_PATH_MAX);
    struct http_reply reply;
    struct wire_answer answer;
    buffer_append(&path, VIEW("/v1/timeline"));
    wire_parameter(&path, "namespace", view_of(client_ns(timeline->client)));
    wire_parameter(&path, "scope", view_of(timeline->info->scope));
    if (!buffer_text(&path)) {
        buffer_release(&path);
        return error_set(error, HF_INVALID, "the names are too long");
    }
    enum hf_status status = wire_get(timeline->client, &path, /* header */ NULL,
                                     TIMELINE_BYTES_MAX, &reply, &answer);
    *error = answer.error;
    if (status == HF_OK)
        status = read_timeline(timeline, buffer_view(&reply.body), error);
    http_reply_release(&reply);
    buffer_release(&path);
    return status;
}
