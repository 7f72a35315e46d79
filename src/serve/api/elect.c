/* SPDX-License-Identifier: Apache-2.0 */
/* elect.c: the routes of elections: joining a group and leaving it, and in which order its members
 * may start a piece of work.
 *
 * A member is an object of the store. The server writes it for a client and keeps nothing about it,
 * so any server can write the next heartbeat.
 *
 * Groups belong to the whole store and to no namespace, so a token needs the right in all
 * namespaces. An election only saves work: the reply may be old when it arrives. */
#include "serve/api/exchange.h"

#include <stdlib.h>

/* ---- Leaders ------------------------------------------------------------------------- */

/* The library bounds the members of a group. */
struct member_list {
    struct arena *arena;
    struct hf_elect_info *members;
    size_t count, room;
    bool failed;
};

static bool add_elect_member(void *argument, const struct hf_elect_info *info)
{
    struct member_list *list = argument;
    if (list->count == list->room) {
        size_t room = list->room > 0 ? 2 * list->room : 64;
        struct hf_elect_info *more = realloc(list->members, room * sizeof *more);
        if (!more) {
            list->failed = true;
            return false;
        }
        list->members = more;
        list->room = room;
    }
    struct view name = arena_copy(list->arena, view_of(info->name));
    list->failed = !name.data;
    list->members[list->count] = *info;
    list->members[list->count++].name = name.data;
    return !list->failed;
}

static void put_member(struct buffer *json, const struct hf_elect_info *member)
{
    json_put_text(json, "name", member->name);
    json_put_bool(json, "present", member->present);
    json_put_i64(json, "beat_at_unix", member->beaten_ms / 1000);
}

/* Those that are present, in the order of their ranks, and then the others. */
static enum hf_status put_members(struct exchange *exchange, const struct member_list *list,
                                  struct hf_error *error)
{
    struct hf_elect_work work = HF_ELECT_WORK;
    struct buffer *json = &exchange->body;
    const char **names = calloc(list->count + 1, sizeof *names);
    size_t *present = calloc(list->count + 1, sizeof *present);
    struct hf_elect_place *places = calloc(list->count + 1, sizeof *places);
    size_t count = 0;
    enum hf_status status = names && present && places ? HF_OK : error_no_memory(error);
    for (size_t i = 0; status == HF_OK && i < list->count; i++)
        if (list->members[i].present) {
            names[count] = list->members[i].name;
            present[count++] = i;
        }
    work.level = exchange->ask.level;
    if (status == HF_OK)
        status = hf_elect_order(&work, names, count, places, error);
    for (size_t rank = 0; status == HF_OK && rank < count; rank++) {
        json_next(json);
        buffer_append_byte(json, '{');
        put_member(json, &list->members[present[places[rank].member]]);
        json_put_u64(json, "rank", rank);
        buffer_append_byte(json, '}');
    }
    for (size_t i = 0; status == HF_OK && i < list->count; i++)
        if (!list->members[i].present) {
            json_next(json);
            buffer_append_byte(json, '{');
            put_member(json, &list->members[i]);
            buffer_append_byte(json, '}');
        }
    free(names);
    free(present);
    free(places);
    return status;
}

static enum hf_status list_leaders(struct exchange *exchange, struct hf_error *error)
{
    const struct ask *ask = &exchange->ask;
    struct buffer *json = &exchange->body;
    struct arena arena = ARENA_INIT;
    struct member_list list = { .arena = &arena };
    enum hf_status status =
        hf_elect_members(exchange->space->client, ask->group, (int64_t)ask->beat_ms,
                         add_elect_member, &list, error);
    if (status == HF_OK && list.failed)
        status = error_no_memory(error);
    buffer_append_byte(json, '{');
    json_put_text(json, "group", ask->group);
    json_open(json, "members", '[');
    if (status == HF_OK)
        status = put_members(exchange, &list, error);
    buffer_append(json, VIEW("]}"));
    free(list.members);
    arena_release(&arena);
    return status == HF_OK && json->failed ? error_no_memory(error) : status;
}

static enum hf_status need_group(struct exchange *exchange, struct hf_error *error)
{
    return exchange->ask.group ? HF_OK : error_set(error, HF_INVALID, "'group' is missing");
}

static void begin_leaders(struct exchange *exchange)
{
    exchange_work(exchange, list_leaders);
}

/* ---- Members ------------------------------------------------------------------------- */

static enum hf_status need_member(struct exchange *exchange, struct hf_error *error)
{
    enum hf_status status = need_group(exchange, error);
    if (status == HF_OK && !exchange->ask.name)
        return error_set(error, HF_INVALID, "'name' is missing");
    return status;
}

/* Writes a heartbeat of the member, which may be its first one. */
static enum hf_status send_beat(struct exchange *exchange, struct hf_elect_member **ret_member,
                                struct hf_error *error)
{
    const struct ask *ask = &exchange->ask;
    struct hf_elect_options options = HF_ELECT_OPTIONS;
    options.name = ask->name;
    options.label = ask->owner;
    options.beat_ms = (int64_t)ask->beat_ms;
    options.by_hand = true;
    return hf_elect_join(exchange->space->client, ask->group, &options, ret_member, error);
}

static enum hf_status campaign(struct exchange *exchange, struct hf_error *error)
{
    const struct ask *ask = &exchange->ask;
    struct buffer *json = &exchange->body;
    struct hf_elect_work work = HF_ELECT_WORK;
    struct hf_elect_member *member;
    size_t rank = 0;
    enum hf_status status = send_beat(exchange, &member, error);
    if (status != HF_OK)
        return status;
    work.level = ask->level;
    status = hf_elect_rank_own(member, &work, &rank, /* ret_score */ NULL, error);
    buffer_append_byte(json, '{');
    json_put_text(json, "group", ask->group);
    json_put_text(json, "name", hf_elect_name(member));
    json_put_u64(json, "rank", rank);
    json_put_bool(json, "leads", rank == 0);
    json_put_u64(json, "beat_ms", ask->beat_ms > 0 ? ask->beat_ms : HF_ELECT_BEAT_MS);
    buffer_append_byte(json, '}');
    hf_elect_detach(member);
    return status == HF_OK && json->failed ? error_no_memory(error) : status;
}

static void begin_campaign(struct exchange *exchange)
{
    exchange_work(exchange, campaign);
}

static enum hf_status resign(struct exchange *exchange, struct hf_error *error)
{
    const struct ask *ask = &exchange->ask;
    struct buffer *json = &exchange->body;
    struct hf_elect_member *member;
    enum hf_status status = send_beat(exchange, &member, error);
    if (status != HF_OK)
        return status;
    hf_elect_leave(member);
    buffer_append_byte(json, '{');
    json_put_text(json, "group", ask->group);
    json_put_text(json, "name", ask->name);
    json_put_bool(json, "resigned", true);
    buffer_append_byte(json, '}');
    return json->failed ? error_no_memory(error) : HF_OK;
}

static void begin_resign(struct exchange *exchange)
{
    exchange_work(exchange, resign);
}

const struct route elect_routes[] = {
    { HTTP_VERB_POST, "/v1/elect/campaign", RIGHT_LOCK, .has_space = true, .reads_body = true,
      need_group, begin_campaign, exchange_reply_body, .whole_store = true },
    { HTTP_VERB_POST, "/v1/elect/keep", RIGHT_LOCK, .has_space = true, .reads_body = true,
      need_member, begin_campaign, exchange_reply_body, .whole_store = true },
    { HTTP_VERB_POST, "/v1/elect/resign", RIGHT_LOCK, .has_space = true, .reads_body = true,
      need_member, begin_resign, exchange_reply_body, .whole_store = true },
    { HTTP_VERB_GET, "/v1/elect/leaders", RIGHT_READ, .has_space = true, .reads_body = false,
      need_group, begin_leaders, exchange_reply_body, .whole_store = true },
    { 0 },
};
