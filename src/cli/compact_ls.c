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
    size_t count;
    enum hf_status flushed;
    struct hf_error error; /* of that */
};

/* Of a name that is being deleted only the name is known any more. */
static void tell_name(struct cli *cli, const struct hf_chunk_info *chunk)
{
    const char *state = hf_chunk_state_name(chunk->state);
    if (!cli->json) {
        output_print(&cli->out, "%-10s %-5s %10s %10s  %-24s  ", state, "", "", "", "");
        output_key(&cli->out, view_of(chunk->key));
        output_text(&cli->out, "\n");
        return;
    }
    json_t *object = json_object();
    json_add(&object, "state", json_string(state));
    json_add(&object, "partition", json_string(chunk->partition));
    json_add_key(&object, "key", view_of(chunk->key));
    output_json(&cli->out, object);
}

static void tell_words(const struct listing *listing, const struct hf_chunk_info *chunk)
{
    struct output *out = &listing->cli->out;
    char time[TIME_TEXT_MAX], size[SIZE_TEXT_MAX];
    if (listing->all)
        output_print(out, "%-10s ", hf_chunk_state_name(chunk->state));
    output_print(out, "L%-4u %10s ", chunk->level, size_text(chunk->size, size));
    if (chunk->rows_known)
        output_print(out, "%10" PRIu64, chunk->rows);
    else
        output_print(out, "%10s", "-");
    output_print(out, "  %-24s  ", time_text((struct wall_time){ chunk->max_ms * 1000 }, time));
    output_key(out, view_of(chunk->key));
    if (chunk->quarantine[0]) {
        output_text(out, "  quarantined: ");
        output_words(out, view_of(chunk->quarantine));
    } else if (chunk->tries > 0) {
        output_print(out, "  tried %u time%s in vain", chunk->tries, plural(chunk->tries));
    }
    output_text(out, "\n");
}

static void tell_json(const struct listing *listing, const struct hf_chunk_info *chunk)
{
    json_t *object = chunk_as_json(chunk);
    json_add(&object, "state", json_string(hf_chunk_state_name(chunk->state)));
    json_add(&object, "partition", json_string(chunk->partition));
    if (chunk->into[0])
        json_add_key(&object, "into", view_of(chunk->into));
    output_json(&listing->cli->out, object);
}

/* Above the first chunk; with --all also where there is none. */
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

/* Written out now and then, so that a reader who is gone is noticed. */
#define FLUSH_EVERY 256

static bool tell_chunk(void *argument, const struct hf_chunk_info *chunk)
{
    struct listing *listing = argument;
    struct cli *cli = listing->cli;
    bool is_name = chunk->state == HF_CHUNK_RETIRED || chunk->state == HF_CHUNK_CONDEMNED;
    tell_titles(listing);
    if (is_name)
        tell_name(cli, chunk);
    else if (cli->json)
        tell_json(listing, chunk);
    else
        tell_words(listing, chunk);
    if (++listing->count % FLUSH_EVERY == 0)
        listing->flushed = output_flush(&cli->out, &listing->error);
    return listing->flushed == HF_OK;
}

enum hf_status run_compact_ls(struct cli *cli)
{
    struct desk desk;
    struct listing listing = { .cli = cli, .all = cli_given(cli, "all"), .flushed = HF_OK };
    enum hf_status status = desk_open(&desk, cli);
    if (status == HF_OK) {
        status = hf_compact_chunks(desk.compact, listing.all ? HF_CHUNKS_ALL : HF_CHUNKS_LIVE,
                                   tell_chunk, &listing, &cli->error);
        status = desk_end(&desk, status);
        if (status == HF_OK && listing.all)
            tell_titles(&listing);
    }
    if (listing.flushed != HF_OK) {
        cli->error = listing.error;
        status = listing.flushed;
    }
    desk_close(&desk);
    return status;
}
