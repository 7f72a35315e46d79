/* compact_ls.c: `compact ls`: the chunks of a partition, those that are data and, with --all,
 * those that were. */
#include "base/parse.h"
#include "cli/compact.h"

#include <inttypes.h>
#include <stdio.h>

struct listing {
    struct cli *cli;
    bool all;
    bool titled;
};

/* Of a name that is being deleted only the name is known any more. */
static void tell_name(struct cli *cli, const struct slot *slot, const char *state,
                      struct view key)
{
    if (!cli->json) {
        output_print(&cli->out, "%-10s %-5s %10s %10s  %-24s  ", state, "", "", "", "");
        output_key(&cli->out, key);
        output_text(&cli->out, "\n");
        return;
    }
    json_t *object = json_object();
    json_add(&object, "state", json_string(state));
    json_add(&object, "partition", json_string(slot->partition));
    json_add_key(&object, "key", key);
    output_json(&cli->out, object);
}

static void tell_words(const struct listing *listing, const char *state,
                       const struct chunk *chunk)
{
    struct output *out = &listing->cli->out;
    char time[TIME_TEXT_MAX], size[SIZE_TEXT_MAX];
    if (listing->all)
        output_print(out, "%-10s ", state);
    output_print(out, "L%-4u %10s ", chunk->level, size_text(chunk->size, size));
    if (chunk->rows_known)
        output_print(out, "%10" PRIu64, chunk->rows);
    else
        output_print(out, "%10s", "-");
    output_print(out, "  %-24s  ", time_text((struct wall_time){ chunk->max_ms * 1000 }, time));
    output_key(out, chunk->key);
    if (chunk->quarantine.size > 0) {
        output_text(out, "  quarantined: ");
        output_words(out, chunk->quarantine);
    } else if (chunk->tries > 0) {
        output_print(out, "  tried %u time%s in vain", chunk->tries, plural(chunk->tries));
    }
    output_text(out, "\n");
}

static void tell_chunk(const struct listing *listing, const struct slot *slot,
                       const char *state, const struct chunk *chunk, struct view into)
{
    if (!listing->cli->json) {
        tell_words(listing, state, chunk);
        return;
    }
    json_t *object = chunk_as_json(chunk);
    json_add(&object, "state", json_string(state));
    json_add(&object, "partition", json_string(slot->partition));
    if (into.size > 0)
        json_add_key(&object, "into", into);
    output_json(&listing->cli->out, object);
}

static void tell_dead(const struct listing *listing, const struct slot *slot,
                      const struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->grave_count; i++)
        for (size_t j = 0; j < catalog->graves[i].count; j++)
            tell_chunk(listing, slot, chunk_state_name(CHUNK_TOMBSTONE),
                       &catalog->graves[i].chunks[j], catalog->graves[i].into);
    for (size_t i = 0; i < catalog->removal_count; i++) {
        const struct removal *removal = &catalog->removals[i];
        enum chunk_state state =
            removal->how == DELETING_RETIRED ? CHUNK_RETIRED : CHUNK_CONDEMNED;
        for (size_t j = 0; j < removal->count; j++)
            tell_name(listing->cli, slot, chunk_state_name(state), removal->keys[j]);
    }
}

/* Above the first chunk. */
static void tell_titles(struct listing *listing)
{
    struct cli *cli = listing->cli;
    char line[160];
    if (listing->titled || cli->json || cli->quiet)
        return;
    listing->titled = true;
    snprintf(line, sizeof line, "%s%-5s %10s %10s  %-24s  %s",
             listing->all ? "STATE      " : "", "LEVEL", "SIZE", "ROWS", "LATEST", "KEY");
    output_bold(&cli->out, view_of(line));
    output_text(&cli->out, "\n");
}

static enum hf_status tell_catalog(void *argument, struct slot *slot,
                                   const struct catalog *catalog,
                                   const struct evidence *evidence)
{
    struct listing *listing = argument;
    (void)evidence;
    if (catalog->live_count > 0 || listing->all)
        tell_titles(listing);
    for (size_t i = 0; i < catalog->live_count; i++)
        tell_chunk(listing, slot, chunk_state_name(CHUNK_LIVE), &catalog->live[i], VIEW(""));
    if (listing->all)
        tell_dead(listing, slot, catalog);
    return output_flush(&listing->cli->out, &listing->cli->error);
}

enum hf_status run_compact_ls(struct cli *cli)
{
    struct desk desk;
    struct listing listing = { .cli = cli, .all = cli_given(cli, "all") };
    enum hf_status status = desk_open(&desk, cli);
    if (status == HF_OK)
        status = desk_walk(&desk, tell_catalog, &listing);
    desk_close(&desk);
    return status;
}
