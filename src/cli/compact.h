/* compact.h: what the commands about compaction share. Their rows stand in compact.c; the other
 * files are called by what their commands do: compact_settings.c (create, set), compact_ingest.c,
 * compact_plan.c, compact_run.c (run, watch), compact_status.c, compact_ls.c, compact_fsck.c, and
 * compact_care.c (pause, resume, pin, quarantine, undelete). */
#ifndef CLI_COMPACT_H
#define CLI_COMPACT_H

#include "cli/cli.h"
#include "cli/json_add.h"

enum hf_status run_compact_create(struct cli *cli);
enum hf_status run_compact_set(struct cli *cli);
enum hf_status run_compact_ingest(struct cli *cli);
enum hf_status run_compact_plan(struct cli *cli);
enum hf_status run_compact_run(struct cli *cli);
enum hf_status run_compact_watch(struct cli *cli);
enum hf_status run_compact_status(struct cli *cli);
enum hf_status run_compact_ls(struct cli *cli);
enum hf_status run_compact_pause(struct cli *cli);
enum hf_status run_compact_resume(struct cli *cli);
enum hf_status run_compact_fsck(struct cli *cli);
enum hf_status run_compact_pin(struct cli *cli);
enum hf_status run_compact_quarantine(struct cli *cli);
enum hf_status run_compact_undelete(struct cli *cli);

/* ---- The partition that a command works on -------------------------------------------- */

struct desk {
    struct cli *cli;
    struct hf_client *client;
    struct hf_compact *compact;
    struct hf_error broken; /* the first part that could not be read, which was told */
};

/* Opens the store, a client on it, and the partition of --partition. A part of it that cannot be
 * read is told on stderr, and the rest goes on. desk_close is needed on failure too. */
enum hf_status desk_open(struct desk *desk, struct cli *cli);

/* The same with commands of the bucket that may run here, and with all requests counted. `options`
 * is the caller's; where trouble is told is filled in. */
enum hf_status desk_open_exec(struct desk *desk, struct cli *cli,
                              struct hf_compact_options *options);
enum hf_status desk_open_counted(struct desk *desk, struct cli *cli,
                                 struct hf_compact_options *options);
void desk_close(struct desk *desk);

/* Requests to the store so far. */
uint64_t desk_requests(struct desk *desk);

/* The name of --partition, or the default one. */
struct view partition_option(struct cli *cli);

/* The folder of --scratch, or where temporary files usually go. */
const char *scratch_folder(struct cli *cli);

/* The programs that commands of the bucket may run here, of --allow-exec and $HOLDFAST_ALLOW_EXEC,
 * without limits. They live as long as the cli. */
enum hf_status take_allow_exec(struct cli *cli, struct hf_compact_options *options);

/* What a call ended with: where that is a part that was told, it is not told again. */
enum hf_status desk_end(struct desk *desk, enum hf_status status);

/* ---- JSON ---------------------------------------------------------------------------- */

json_t *settings_as_json(const struct hf_compact_settings *settings);
json_t *chunk_as_json(const struct hf_chunk_info *chunk);

#endif
