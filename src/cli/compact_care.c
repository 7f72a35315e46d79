/* compact_care.c: what people do to a partition by hand: `compact pause`, `resume`, `pin`,
 * `quarantine` and `undelete`. */
#include "base/parse.h"
#include "cli/compact.h"
#include "cli/lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- pause, resume ------------------------------------------------------------------- */

static void tell_pause(struct cli *cli, bool paused)
{
    struct view partition = partition_option(cli);
    if (cli->json)
        output_json(&cli->out, json_pack("{s:s%, s:b}", "partition", partition.data,
                                         partition.size, "paused", paused));
    else if (!cli->quiet)
        output_print(&cli->out, "%s %.*s\n", paused ? "paused" : "resumed",
                     VIEW_ARGS(partition));
}

enum hf_status run_compact_pause(struct cli *cli)
{
    struct desk desk;
    char by[USER_TEXT_MAX];
    enum hf_status status = desk_open(&desk, cli);
    if (status == HF_OK)
        status =
            hf_compact_pause(desk.compact, option_text(cli, "why"), user_text(by), &cli->error);
    if (status == HF_OK)
        tell_pause(cli, true);
    desk_close(&desk);
    return status;
}

enum hf_status run_compact_resume(struct cli *cli)
{
    struct desk desk;
    enum hf_status status = desk_open(&desk, cli);
    if (status == HF_OK)
        status = hf_compact_resume(desk.compact, &cli->error);
    if (status == HF_OK)
        tell_pause(cli, false);
    desk_close(&desk);
    return status;
}

/* ---- pin ----------------------------------------------------------------------------- */

#define PIN_TTL_DEFAULT SPAN_S(600)
#define PIN_CHUNKS_MAX  512

enum hf_status run_compact_pin(struct cli *cli)
{
    struct desk desk;
    struct hf_lock *lock = NULL;
    if (cli->argument_count > PIN_CHUNKS_MAX)
        return error_set(&cli->error, HF_INVALID, "at most %d chunks are pinned at once",
                         PIN_CHUNKS_MAX);
    enum hf_status status = desk_open(&desk, cli);
    if (status == HF_OK)
        status =
            hf_compact_pin(desk.compact, cli->arguments, cli->argument_count,
                           cli_span(cli, "ttl", PIN_TTL_DEFAULT).us / 1000, &lock, &cli->error);
    if (status == HF_OK)
        status = lease_hand_over(cli, lock);
    if (status == HF_OK)
        hf_lock_detach(lock);
    else
        hf_lock_free(lock);
    desk_close(&desk);
    return status;
}

/* ---- quarantine, undelete ------------------------------------------------------------ */

static void tell_quarantine(struct cli *cli, struct view why)
{
    if (cli->json) {
        json_t *object = json_object();
        json_add_key(&object, "key", cli_argument(cli, 0));
        json_add_words(&object, "quarantine", why);
        output_json(&cli->out, object);
    } else if (!cli->quiet) {
        output_text(&cli->out, why.size > 0 ? "quarantined " : "released ");
        output_key(&cli->out, cli_argument(cli, 0));
        output_text(&cli->out, "\n");
    }
}

#define REASON_BYTES_MAX 200

enum hf_status run_compact_quarantine(struct cli *cli)
{
    struct desk desk;
    char by[USER_TEXT_MAX], said[REASON_BYTES_MAX + 1];
    const char *why = option_text(cli, "why");
    if (why && strlen(why) > REASON_BYTES_MAX)
        return error_set(&cli->error, HF_INVALID, "--why is at most %d bytes",
                         REASON_BYTES_MAX);
    snprintf(said, sizeof said, "by %s", user_text(by));
    bool release = cli_given(cli, "release");
    if (!why || !why[0])
        why = said;
    enum hf_status status = desk_open(&desk, cli);
    if (status == HF_OK) {
        status = release
                     ? hf_compact_unquarantine(desk.compact, cli->arguments[0], &cli->error)
                     : hf_compact_quarantine(desk.compact, cli->arguments[0], why, &cli->error);
        status = desk_end(&desk, status);
    }
    if (status == HF_OK)
        tell_quarantine(cli, view_of(release ? "" : why));
    desk_close(&desk);
    return status;
}

enum hf_status run_compact_undelete(struct cli *cli)
{
    struct desk desk;
    uint64_t restored = 0;
    enum hf_status status = desk_open(&desk, cli);
    if (status == HF_OK)
        status = desk_end(&desk, hf_compact_undelete(desk.compact, cli->arguments[0], &restored,
                                                     &cli->error));
    if (status == HF_OK && cli->json) {
        json_t *object = json_object();
        json_add_key(&object, "key", cli_argument(cli, 0));
        json_add_count(&object, "restored", restored);
        output_json(&cli->out, object);
    } else if (status == HF_OK && !cli->quiet) {
        output_text(&cli->out, "brought back ");
        output_count(&cli->out, restored, "chunk");
        output_text(&cli->out, "\n");
    }
    desk_close(&desk);
    return status;
}
