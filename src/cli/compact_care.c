/* compact_care.c: what people do to a partition by hand: `compact pause`, `resume`, `pin`,
 * `quarantine` and `undelete`. */
#include "base/parse.h"
#include "cli/compact.h"
#include "cli/lock.h"
#include "compact/pin.h"

#include <inttypes.h>

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

static void see(void *argument, const struct catalog *catalog, const struct evidence *evidence)
{
    (void)argument;
    (void)catalog;
    (void)evidence;
}

/* A name that somebody mistyped has no catalog. One that is damaged may be paused all the more. */
static enum hf_status find_catalog(struct desk *desk)
{
    struct cli *cli = desk->cli;
    struct slot *slot;
    enum hf_status status = shelf_slot(desk->shelf, partition_option(cli), &slot, &cli->error);
    if (status == HF_OK)
        status = slot_show(slot, see, NULL, &cli->error);
    bool is_there = status == HF_CORRUPT || status == HF_UNSUPPORTED;
    return is_there ? error_clear(&cli->error) : status;
}

enum hf_status run_compact_pause(struct cli *cli)
{
    struct desk desk;
    char by[USER_TEXT_MAX];
    const char *why = option_text(cli, "why");
    enum hf_status status = desk_open(&desk, cli);
    if (status == HF_OK)
        status = find_catalog(&desk);
    if (status == HF_OK)
        status = shelf_pause(desk.shelf, view_of(why ? why : ""), view_of(user_text(by)),
                             &cli->error);
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
        status = find_catalog(&desk);
    if (status == HF_OK)
        status = shelf_resume(desk.shelf, &cli->error);
    if (status == HF_OK)
        tell_pause(cli, false);
    desk_close(&desk);
    return status;
}

/* ---- pin ----------------------------------------------------------------------------- */

#define PIN_TTL_DEFAULT SPAN_S(600)

enum hf_status run_compact_pin(struct cli *cli)
{
    struct desk desk;
    struct hf_lock *lock = NULL;
    if (cli->argument_count > PIN_CHUNKS_MAX)
        return error_set(&cli->error, HF_INVALID, "at most %d chunks are pinned at once",
                         PIN_CHUNKS_MAX);
    enum hf_status status = desk_open(&desk, cli);
    if (status == HF_OK)
        status = pin_take(desk.shelf, cli->arguments, cli->argument_count,
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

/* ---- Finding a chunk ----------------------------------------------------------------- */

struct search {
    struct view key;
    enum chunk_state wanted;
    enum chunk_state found;
    char partition[PARTITION_BYTES_MAX + 1]; /* of the catalog that has it like that */
};

/* A name stands in the catalog of its home; what a split moved is found in a child. */
static enum hf_status look_for(void *argument, struct slot *slot, const struct catalog *catalog,
                               const struct evidence *evidence)
{
    struct search *search = argument;
    (void)evidence;
    enum chunk_state state = catalog_state(catalog, search->key);
    if (state == CHUNK_UNKNOWN || state == CHUNK_MOVED || search->found == search->wanted)
        return HF_OK;
    search->found = state;
    memcpy(search->partition, slot->partition, sizeof search->partition);
    return HF_OK;
}

static enum hf_status find_chunk(struct desk *desk, struct view key, enum chunk_state wanted,
                                 struct slot **ret_slot)
{
    struct cli *cli = desk->cli;
    struct search search = { .key = key, .wanted = wanted, .found = CHUNK_UNKNOWN };
    enum hf_status status = desk_walk(desk, look_for, &search);
    if (search.found == wanted)
        return shelf_slot(desk->shelf, view_of(search.partition), ret_slot, &cli->error);
    if (status != HF_OK)
        return status;
    if (search.found == CHUNK_UNKNOWN)
        return error_set(&cli->error, HF_NOT_FOUND, "no catalog of the partition has it");
    return error_set(&cli->error, HF_NOT_FOUND, "it is %s, not %s",
                     chunk_state_name(search.found), chunk_state_name(wanted));
}

/* One operation on one chunk of this state. */
static enum hf_status apply_to_chunk(struct desk *desk, enum chunk_state wanted,
                                     struct catalog_op *op)
{
    struct slot *slot;
    struct view key = cli_argument(desk->cli, 0);
    enum hf_status status = find_chunk(desk, key, wanted, &slot);
    if (status != HF_OK)
        return status;
    op->keys = &key;
    op->key_count = 1;
    status = slot_apply(slot, op, /* deadline */ (struct mono_time){ 0 });
    desk->cli->error = op->error;
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

enum hf_status run_compact_quarantine(struct cli *cli)
{
    struct desk desk;
    char by[USER_TEXT_MAX];
    struct buffer said = BUFFER_INIT(2 * USER_TEXT_MAX);
    const struct option_value *why = cli_option(cli, "why");
    struct catalog_op op = { .kind = CATALOG_QUARANTINE, .reason = VIEW("") };
    if (why && why->text.size > REASON_BYTES_MAX)
        return error_set(&cli->error, HF_INVALID, "--why is at most %d bytes",
                         REASON_BYTES_MAX);
    buffer_print(&said, "by %s", user_text(by));
    if (!cli_given(cli, "release"))
        op.reason = why && why->text.size > 0
                        ? why->text
                        : view_first(buffer_view(&said), REASON_BYTES_MAX);
    enum hf_status status = desk_open(&desk, cli);
    if (status == HF_OK)
        status = apply_to_chunk(&desk, CHUNK_LIVE, &op);
    if (status == HF_OK)
        tell_quarantine(cli, op.reason);
    desk_close(&desk);
    buffer_release(&said);
    return status;
}

enum hf_status run_compact_undelete(struct cli *cli)
{
    struct desk desk;
    struct catalog_op op = { .kind = CATALOG_UNDELETE };
    enum hf_status status = desk_open(&desk, cli);
    if (status == HF_OK)
        status = apply_to_chunk(&desk, CHUNK_TOMBSTONE, &op);
    if (status == HF_OK && cli->json) {
        json_t *object = json_object();
        json_add_key(&object, "key", cli_argument(cli, 0));
        json_add_count(&object, "restored", op.moved);
        output_json(&cli->out, object);
    } else if (status == HF_OK && !cli->quiet) {
        output_text(&cli->out, "brought back ");
        output_count(&cli->out, op.moved, "chunk");
        output_text(&cli->out, "\n");
    }
    desk_close(&desk);
    return status;
}
