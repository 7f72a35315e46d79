/* index_status.c: `index status`: how an index is, in words or as JSON. */
#include "base/parse.h"
#include "cli/index.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "cli/lock.h"
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>

/* Above this a shard is read and written at length for each fold of it. */
#define SHARD_LARGE (1 * GIB)

/* An entry that waits for longer is a sign that nobody compiles. */
#define WAIT_LONG SPAN_S(3600)

#define REASONS_MAX 8

/* Why an entry was set aside. */
struct aside_reason {
    struct view entry, why;
};

struct overview_of_index {
    struct index_desk desk;
    struct hf_index_stats stats;
    struct hf_index_holder *holders; /* the first of them, in the arena of the command */
    size_t holder_count, holder_room;
    struct aside_reason reasons[REASONS_MAX];
    size_t reason_count;
    bool no_memory;
    int64_t now_ms;
    struct gauge gauge;
};

static bool step(void *argument, uint64_t entries)
{
    struct overview_of_index *view = argument;
    char words[80];
    if (gauge_is_due(&view->gauge)) {
        snprintf(words, sizeof words, "status  %" PRIu64 " entr%s", entries,
                 entries == 1 ? "y" : "ies");
        gauge_say(&view->gauge, view_of(words));
    }
    return !interrupted();
}

static bool make_room(struct overview_of_index *view)
{
    if (view->holder_count < view->holder_room)
        return true;
    size_t room = view->holder_room > 0 ? 2 * view->holder_room : 16;
    struct hf_index_holder *holders =
        arena_take(&view->desk.cli->arena, room * sizeof *holders);
    if (!holders)
        return false;
    if (view->holder_count > 0)
        memcpy(holders, view->holders, view->holder_count * sizeof *holders);
    view->holders = holders;
    view->holder_room = room;
    return true;
}

static bool note_holder(void *argument, const struct hf_index_holder *holder)
{
    struct overview_of_index *view = argument;
    struct arena *arena = &view->desk.cli->arena;
    struct view shard = arena_copy(arena, view_of(holder->shard));
    struct view name = arena_copy(arena, view_of(holder->holder));
    view->no_memory = !shard.data || !name.data || !make_room(view);
    if (view->no_memory)
        return false;
    struct hf_index_holder *kept = &view->holders[view->holder_count++];
    *kept = *holder;
    kept->shard = shard.data;
    kept->holder = name.data;
    return true;
}

static bool note_reason(void *argument, const char *entry, const char *why)
{
    struct overview_of_index *view = argument;
    struct arena *arena = &view->desk.cli->arena;
    struct aside_reason *reason = &view->reasons[view->reason_count];
    *reason = (struct aside_reason){ arena_copy(arena, view_of(entry)),
                                     arena_copy(arena, view_of(why)) };
    view->no_memory = view->no_memory || !reason->entry.data || !reason->why.data;
    return !view->no_memory && ++view->reason_count < REASONS_MAX;
}

/* Clocks may differ: what was written in the future was written just now. */
static struct span age(const struct overview_of_index *view, int64_t then_ms)
{
    return SPAN_MS(view->now_ms > then_ms ? view->now_ms - then_ms : 0);
}

/* ---- As JSON ------------------------------------------------------------------------- */

static json_t *schema_as_json(const struct index_desk *desk)
{
    const struct hf_index_info *info = &desk->info;
    json_t *object = json_object(), *fields = json_array();
    for (size_t i = 0; i < info->field_count; i++)
        json_push(&fields, json_string(hf_index_field_name(desk->index, i)));
    json_add(&object, "fields", fields);
    json_add(&object, "key", json_string(hf_index_field_name(desk->index, info->key)));
    json_add(&object, "time", json_string(hf_index_field_name(desk->index, info->time)));
    json_add_count(&object, "version", info->version);
    json_add_count(&object, "digits", info->digits);
    json_add_bool(&object, "foreign", info->foreign);
    return object;
}

static json_t *inbox_as_json(const struct overview_of_index *view)
{
    const struct hf_index_stats *stats = &view->stats;
    json_t *object = json_object();
    json_add_count(&object, "entries", stats->entries);
    json_add_count(&object, "foreign", stats->entries_foreign);
    json_add_count(&object, "size_bytes", stats->entry_bytes);
    json_add_count(&object, "strays", stats->strays);
    json_add_count(&object, "markers", stats->markers);
    json_add_count(&object, "shards_waiting", stats->shards_waiting);
    if (stats->oldest_ms >= 0)
        json_add_count(&object, "oldest_age_ms",
                       (uint64_t)age(view, stats->oldest_ms).us / 1000);
    else
        json_add(&object, "oldest_age_ms", json_null());
    return object;
}

static json_t *shards_as_json(const struct overview_of_index *view)
{
    const struct hf_index_stats *stats = &view->stats;
    json_t *object = json_object();
    json_add_count(&object, "count", stats->shards);
    json_add_count(&object, "most", view->desk.info.shards);
    json_add_count(&object, "size_bytes", stats->shard_bytes);
    json_add_words(&object, "largest", view_of(stats->largest));
    json_add_count(&object, "largest_bytes", stats->shard_bytes_max);
    return object;
}

static const char *state_of(const struct overview_of_index *view,
                            const struct hf_index_holder *holder)
{
    if (holder->over)
        return "over";
    return holder->expires_ms > view->now_ms ? "active" : "overdue";
}

static json_t *holders_as_json(const struct overview_of_index *view)
{
    json_t *list = json_array();
    for (size_t i = 0; i < view->holder_count; i++) {
        const struct hf_index_holder *holder = &view->holders[i];
        json_t *object = json_object();
        json_add(&object, "shard", json_string(holder->shard));
        json_add_words(&object, "holder", view_of(holder->holder));
        json_add_count(&object, "token", holder->token);
        json_add(&object, "state", json_string(state_of(view, holder)));
        json_add_time_ms(&object, "acquired_at", holder->created_ms);
        json_add_time_ms(&object, "expires_at", holder->expires_ms);
        json_push(&list, object);
    }
    return list;
}

static json_t *reasons_as_json(const struct overview_of_index *view)
{
    json_t *list = json_array();
    for (size_t i = 0; i < view->reason_count; i++) {
        json_t *object = json_object();
        json_add_words(&object, "entry", view->reasons[i].entry);
        json_add_words(&object, "why", view->reasons[i].why);
        json_push(&list, object);
    }
    return list;
}

static void tell_json(const struct overview_of_index *view)
{
    const struct hf_index_stats *stats = &view->stats;
    json_t *object = json_object();
    json_add(&object, "index", json_string(view->desk.cli->arguments[0]));
    json_add(&object, "schema", schema_as_json(&view->desk));
    json_add(&object, "inbox", inbox_as_json(view));
    json_add(&object, "shards", shards_as_json(view));
    if (stats->records >= 0) {
        json_add_count(&object, "records", (uint64_t)stats->records);
        json_add_time_ms(&object, "records_at", stats->records_at_ms);
    } else {
        json_add(&object, "records", json_null());
        json_add(&object, "records_at", json_null());
    }
    json_add_count(&object, "holder_count", stats->holder_count);
    json_add(&object, "holders", holders_as_json(view));
    json_add_count(&object, "locks_unreadable", stats->locks_unreadable);
    json_add_count(&object, "aside", stats->aside);
    json_add(&object, "reasons", reasons_as_json(view));
    output_json(&view->desk.cli->out, object);
}

/* ---- In words ------------------------------------------------------------------------ */

#define LABEL "%-12s "

static const char *one_or_many(uint64_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

static void tell_schema(struct output *out, const struct index_desk *desk)
{
    const struct hf_index_info *info = &desk->info;
    output_print(out, LABEL "%s, version %zu of its fields\n", "index", desk->cli->arguments[0],
                 info->version);
    output_print(out, LABEL, "fields");
    for (size_t i = 0; i < info->field_count; i++)
        output_print(out, "%s%s%s", i ? ", " : "", hf_index_field_name(desk->index, i),
                     i == info->key    ? " (key)"
                     : i == info->time ? " (time)"
                                       : "");
    output_text(out, "\n");
}

static void tell_inbox(struct output *out, const struct overview_of_index *view)
{
    const struct hf_index_stats *stats = &view->stats;
    char size[SIZE_TEXT_MAX], old[SPAN_TEXT_MAX];
    output_print(out, LABEL, "inbox");
    if (stats->entries == 0) {
        output_text(out, "empty\n");
    } else {
        output_print(out, "%" PRIu64 " entr%s, %s, of ", stats->entries,
                     one_or_many(stats->entries, "y", "ies"),
                     size_text(stats->entry_bytes, size));
        output_count(out, stats->shards_waiting, "shard");
        if (stats->entries_foreign > 0)
            output_print(out, "; %" PRIu64 " of other programs", stats->entries_foreign);
        if (stats->oldest_ms >= 0)
            output_print(out, "; the oldest is %s old",
                         brief_text(age(view, stats->oldest_ms), old));
        output_text(out, "\n");
    }
    if (stats->strays > 0)
        output_print(out, LABEL "%" PRIu64 " in the inbox that %s\n", "strays", stats->strays,
                     one_or_many(stats->strays, "is no entry", "are no entries"));
    if (stats->markers > 0)
        output_print(
            out, LABEL "%" PRIu64 " empty %s of others were\n", "markers", stats->markers,
            one_or_many(stats->markers, "object where an entry", "objects where entries"));
}

static void tell_shards(struct output *out, const struct overview_of_index *view)
{
    const struct hf_index_stats *stats = &view->stats;
    char size[SIZE_TEXT_MAX], largest[SIZE_TEXT_MAX], old[AGO_TEXT_MAX];
    output_print(out, LABEL "%zu of %zu", "shards", stats->shards, view->desk.info.shards);
    if (stats->shards > 0)
        output_print(out, ", %s; the largest, %s, has %s", size_text(stats->shard_bytes, size),
                     stats->largest, size_text(stats->shard_bytes_max, largest));
    output_text(out, "\n");
    if (stats->records >= 0)
        output_print(out, LABEL "%" PRIu64 " in shards, as of %s\n", "records", stats->records,
                     ago_text(age(view, stats->records_at_ms), old));
    else
        output_print(out, LABEL "nobody has counted yet\n", "records");
}

static void tell_holders(struct output *out, const struct overview_of_index *view)
{
    const struct hf_index_stats *stats = &view->stats;
    char held[SPAN_TEXT_MAX];
    output_print(out, LABEL "%zu\n", "compiling", stats->holder_count);
    for (size_t i = 0; i < view->holder_count; i++) {
        const struct hf_index_holder *holder = &view->holders[i];
        output_print(out, "  %s: ", holder->shard);
        output_words(out, view_of(holder->holder));
        output_print(out, ", for %s", brief_text(age(view, holder->created_ms), held));
        output_text(out, holder->over ? ", whose time is over: the next one takes it\n" : "\n");
    }
    if (stats->locks_unreadable > 0)
        output_print(out, LABEL "%zu that cannot be read; a compile replaces %s\n", "locks",
                     stats->locks_unreadable,
                     one_or_many(stats->locks_unreadable, "it", "them"));
}

static void tell_aside(struct output *out, const struct overview_of_index *view)
{
    output_print(out, LABEL "%" PRIu64 "\n", "set aside", view->stats.aside);
    for (size_t i = 0; i < view->reason_count; i++) {
        output_text(out, "  ");
        output_words(out, view->reasons[i].entry);
        output_text(out, ": ");
        output_words(out, view->reasons[i].why);
        output_text(out, "\n");
    }
}

static void tell_hints(struct output *out, const struct overview_of_index *view)
{
    const struct hf_index_stats *stats = &view->stats;
    const char *name = view->desk.cli->arguments[0];
    if (stats->shard_bytes_max > SHARD_LARGE && view->desk.info.digits < HF_INDEX_DIGITS_MAX)
        output_print(out,
                     LABEL "shard %s is large: an index with --digits %u would have "
                           "smaller ones\n",
                     "hint", stats->largest, view->desk.info.digits + 1);
    if (stats->oldest_ms >= 0 && age(view, stats->oldest_ms).us > WAIT_LONG.us)
        output_print(out,
                     LABEL "entries wait for long: 'holdfast index compile %s' folds them\n",
                     "hint", name);
    if (stats->aside > 0)
        output_print(
            out,
            LABEL "what was set aside is in indexes/%s/aside/; put again what can be mended, "
                  "and remove it there\n",
            "hint", name);
}

static void tell_words(const struct overview_of_index *view)
{
    struct output *out = &view->desk.cli->out;
    tell_schema(out, &view->desk);
    tell_inbox(out, view);
    tell_shards(out, view);
    tell_holders(out, view);
    tell_aside(out, view);
    tell_hints(out, view);
}

static enum hf_status look(struct overview_of_index *view)
{
    struct cli *cli = view->desk.cli;
    struct hf_index_status_options options = HF_INDEX_STATUS_OPTIONS;
    options.progress = step;
    options.holder = note_holder;
    options.aside = note_reason;
    options.argument = view;
    gauge_start(&view->gauge, cli, VIEW("status"));
    enum hf_status status =
        hf_index_status(view->desk.index, &options, &view->stats, &cli->error);
    gauge_clear(&view->gauge);
    return status == HF_OK && view->no_memory ? error_no_memory(&cli->error) : status;
}

enum hf_status run_index_status(struct cli *cli)
{
    struct overview_of_index view = { .stats = HF_INDEX_STATS };
    enum hf_status status = index_desk_open(&view.desk, cli);
    if (status == HF_OK)
        status = look(&view);
    if (status == HF_OK) {
        view.now_ms = env_wall(cli->env).us / 1000;
        (cli->json ? tell_json : tell_words)(&view);
    }
    index_desk_close(&view.desk);
    return status;
}
