/* index_status.c: `index status`: how an index is, in words or as JSON. */
#include "base/parse.h"
#include "cli/index.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "cli/lock.h"
#include "cli/progress.h"
#include "index/census.h"

#include <inttypes.h>
#include <stdio.h>

/* Above this a shard is read and written at length for each fold of it. */
#define SHARD_LARGE (1 * GIB)

/* An entry that waits for longer is a sign that nobody compiles. */
#define WAIT_LONG SPAN_S(3600)

struct overview_of_index {
    struct index_desk desk;
    struct census census;
    struct wall_time now;
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

/* Clocks may differ: what was written in the future was written just now. */
static struct span age(const struct overview_of_index *view, struct wall_time then)
{
    struct span span = wall_since(view->now, then);
    return span.us > 0 ? span : SPAN_S(0);
}

/* ---- As JSON ------------------------------------------------------------------------- */

static json_t *schema_as_json(const struct schema *schema)
{
    json_t *object = json_object(), *fields = json_array();
    for (size_t i = 0; i < schema->field_count; i++)
        json_push(&fields, json_string(schema->fields[i]));
    json_add(&object, "fields", fields);
    json_add(&object, "key", json_string(schema->fields[schema->key]));
    json_add(&object, "time", json_string(schema->fields[schema->time]));
    json_add_count(&object, "version", schema->version_count);
    json_add_count(&object, "digits", schema->digits);
    json_add_bool(&object, "foreign", schema->foreign);
    return object;
}

static json_t *inbox_as_json(const struct overview_of_index *view)
{
    const struct census *census = &view->census;
    json_t *object = json_object();
    json_add_count(&object, "entries", census->entries);
    json_add_count(&object, "foreign", census->entries_foreign);
    json_add_count(&object, "size_bytes", census->entry_bytes);
    json_add_count(&object, "strays", census->strays);
    json_add_count(&object, "markers", census->markers);
    json_add_count(&object, "shards_waiting", census->shards_waiting);
    if (census->oldest_known)
        json_add_count(&object, "oldest_age_ms", (uint64_t)age(view, census->oldest).us / 1000);
    else
        json_add(&object, "oldest_age_ms", json_null());
    return object;
}

static json_t *shards_as_json(const struct overview_of_index *view)
{
    const struct census *census = &view->census;
    json_t *object = json_object();
    json_add_count(&object, "count", census->shards);
    json_add_count(&object, "most", shard_count(view->desk.index->schema.digits));
    json_add_count(&object, "size_bytes", census->shard_bytes);
    json_add_words(&object, "largest", view_of(census->largest.text));
    json_add_count(&object, "largest_bytes", census->shard_bytes_max);
    return object;
}

static const char *state_of(const struct overview_of_index *view,
                            const struct census_holder *holder)
{
    if (holder->over)
        return "over";
    return wall_since(holder->expires_at, view->now).us > 0 ? "active" : "overdue";
}

static json_t *holders_as_json(const struct overview_of_index *view)
{
    const struct census *census = &view->census;
    json_t *list = json_array();
    for (size_t i = 0; i < census->holder_count && i < CENSUS_HOLDERS_MAX; i++) {
        const struct census_holder *holder = &census->holders[i];
        json_t *object = json_object();
        json_add(&object, "shard", json_string(holder->shard.text));
        json_add_words(&object, "holder", view_of(holder->worker));
        json_add_count(&object, "token", holder->token);
        json_add(&object, "state", json_string(state_of(view, holder)));
        json_add_time_ms(&object, "acquired_at", holder->created_at.us / 1000);
        json_add_time_ms(&object, "expires_at", holder->expires_at.us / 1000);
        json_push(&list, object);
    }
    return list;
}

static json_t *reasons_as_json(const struct census *census)
{
    json_t *list = json_array();
    for (size_t i = 0; i < census->reason_count; i++) {
        json_t *object = json_object();
        json_add_words(&object, "entry", view_of(census->reasons[i].entry));
        json_add_words(&object, "why", view_of(census->reasons[i].why));
        json_push(&list, object);
    }
    return list;
}

static void tell_json(const struct overview_of_index *view)
{
    const struct census *census = &view->census;
    json_t *object = json_object();
    json_add(&object, "index", json_string(view->desk.index->name));
    json_add(&object, "schema", schema_as_json(&view->desk.index->schema));
    json_add(&object, "inbox", inbox_as_json(view));
    json_add(&object, "shards", shards_as_json(view));
    if (census->records_known) {
        json_add_count(&object, "records", census->records);
        json_add_time_ms(&object, "records_at", census->records_at.us / 1000);
    } else {
        json_add(&object, "records", json_null());
        json_add(&object, "records_at", json_null());
    }
    json_add_count(&object, "holder_count", census->holder_count);
    json_add(&object, "holders", holders_as_json(view));
    json_add_count(&object, "locks_unreadable", census->locks_unreadable);
    json_add_count(&object, "aside", census->aside);
    json_add(&object, "reasons", reasons_as_json(census));
    output_json(&view->desk.cli->out, object);
}

/* ---- In words ------------------------------------------------------------------------ */

#define LABEL "%-12s "

static const char *one_or_many(uint64_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

static void tell_schema(struct output *out, const struct index *index)
{
    const struct schema *schema = &index->schema;
    output_print(out, LABEL "%s, version %zu of its fields\n", "index", index->name,
                 schema->version_count);
    output_print(out, LABEL, "fields");
    for (size_t i = 0; i < schema->field_count; i++)
        output_print(out, "%s%s%s", i ? ", " : "", schema->fields[i],
                     i == schema->key    ? " (key)"
                     : i == schema->time ? " (time)"
                                         : "");
    output_text(out, "\n");
}

static void tell_inbox(struct output *out, const struct overview_of_index *view)
{
    const struct census *census = &view->census;
    char size[SIZE_TEXT_MAX], old[SPAN_TEXT_MAX];
    output_print(out, LABEL, "inbox");
    if (census->entries == 0) {
        output_text(out, "empty\n");
    } else {
        output_print(out, "%" PRIu64 " entr%s, %s, of ", census->entries,
                     one_or_many(census->entries, "y", "ies"),
                     size_text(census->entry_bytes, size));
        output_count(out, census->shards_waiting, "shard");
        if (census->entries_foreign > 0)
            output_print(out, "; %" PRIu64 " of other programs", census->entries_foreign);
        if (census->oldest_known)
            output_print(out, "; the oldest is %s old",
                         brief_text(age(view, census->oldest), old));
        output_text(out, "\n");
    }
    if (census->strays > 0)
        output_print(out, LABEL "%" PRIu64 " in the inbox that %s\n", "strays", census->strays,
                     one_or_many(census->strays, "is no entry", "are no entries"));
    if (census->markers > 0)
        output_print(
            out, LABEL "%" PRIu64 " empty %s of others were\n", "markers", census->markers,
            one_or_many(census->markers, "object where an entry", "objects where entries"));
}

static void tell_shards(struct output *out, const struct overview_of_index *view)
{
    const struct census *census = &view->census;
    char size[SIZE_TEXT_MAX], largest[SIZE_TEXT_MAX], old[AGO_TEXT_MAX];
    output_print(out, LABEL "%zu of %zu", "shards", census->shards,
                 shard_count(view->desk.index->schema.digits));
    if (census->shards > 0)
        output_print(out, ", %s; the largest, %s, has %s", size_text(census->shard_bytes, size),
                     census->largest.text, size_text(census->shard_bytes_max, largest));
    output_text(out, "\n");
    if (census->records_known)
        output_print(out, LABEL "%" PRIu64 " in shards, as of %s\n", "records", census->records,
                     ago_text(age(view, census->records_at), old));
    else
        output_print(out, LABEL "nobody has counted yet\n", "records");
}

static void tell_holders(struct output *out, const struct overview_of_index *view)
{
    const struct census *census = &view->census;
    char held[SPAN_TEXT_MAX];
    output_print(out, LABEL "%zu\n", "compiling", census->holder_count);
    for (size_t i = 0; i < census->holder_count && i < CENSUS_HOLDERS_MAX; i++) {
        const struct census_holder *holder = &census->holders[i];
        output_print(out, "  %s: ", holder->shard.text);
        output_words(out, view_of(holder->worker));
        output_print(out, ", for %s", brief_text(age(view, holder->created_at), held));
        output_text(out, holder->over ? ", whose time is over: the next one takes it\n" : "\n");
    }
    if (census->locks_unreadable > 0)
        output_print(out, LABEL "%zu that cannot be read; a compile replaces %s\n", "locks",
                     census->locks_unreadable,
                     one_or_many(census->locks_unreadable, "it", "them"));
}

static void tell_aside(struct output *out, const struct census *census)
{
    output_print(out, LABEL "%" PRIu64 "\n", "set aside", census->aside);
    for (size_t i = 0; i < census->reason_count; i++) {
        output_text(out, "  ");
        output_words(out, view_of(census->reasons[i].entry));
        output_text(out, ": ");
        output_words(out, view_of(census->reasons[i].why));
        output_text(out, "\n");
    }
}

static void tell_hints(struct output *out, const struct overview_of_index *view)
{
    const struct census *census = &view->census;
    const struct index *index = view->desk.index;
    if (census->shard_bytes_max > SHARD_LARGE && index->schema.digits < INDEX_DIGITS_MAX)
        output_print(out,
                     LABEL "shard %s is large: an index with --digits %u would have "
                           "smaller ones\n",
                     "hint", census->largest.text, index->schema.digits + 1);
    if (census->oldest_known && age(view, census->oldest).us > WAIT_LONG.us)
        output_print(out,
                     LABEL "entries wait for long: 'holdfast index compile %s' folds them\n",
                     "hint", index->name);
    if (census->aside > 0)
        output_print(out,
                     LABEL "what was set aside is in %s%s/%s; put again what can be mended, "
                           "and remove it there\n",
                     "hint", LAYOUT_INDEX_FOLDER, index->name, LAYOUT_ASIDE_FOLDER);
}

static void tell_words(const struct overview_of_index *view)
{
    struct output *out = &view->desk.cli->out;
    tell_schema(out, view->desk.index);
    tell_inbox(out, view);
    tell_shards(out, view);
    tell_holders(out, view);
    tell_aside(out, &view->census);
    tell_hints(out, view);
}

enum hf_status run_index_status(struct cli *cli)
{
    struct overview_of_index view = { 0 };
    enum hf_status status = index_desk_open(&view.desk, cli, /* compiles */ false);
    if (status == HF_OK) {
        gauge_start(&view.gauge, cli, VIEW("status"));
        status = census_take(view.desk.index, step, &view, &view.census, &cli->error);
        gauge_clear(&view.gauge);
    }
    if (status == HF_OK) {
        view.now = env_wall(cli->env);
        (cli->json ? tell_json : tell_words)(&view);
        census_release(&view.census);
    }
    index_desk_close(&view.desk);
    return status;
}
