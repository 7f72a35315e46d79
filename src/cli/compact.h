/* compact.h: what the commands about compaction share. Their rows stand in compact.c; the other
 * files are called by what their commands do: compact_settings.c (create, set), compact_ingest.c,
 * compact_plan.c, compact_run.c (run, watch), compact_status.c, compact_ls.c, compact_fsck.c, and
 * compact_care.c (pause, resume, pin, quarantine, undelete). */
#ifndef CLI_COMPACT_H
#define CLI_COMPACT_H

#include "base/map.h"
#include "cli/cli.h"
#include "cli/json_add.h"
#include "compact/allow_exec.h"
#include "compact/shelf.h"
#include "store/observe.h"

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
    struct shelf *shelf;
    bool metered;
    struct meter meter; /* counts all requests, if metered */
};

/* Opens the store, a client on it, and the partition of --partition. desk_close is needed on
 * failure too. */
enum hf_status desk_open(struct desk *desk, struct cli *cli);
enum hf_status desk_open_metered(struct desk *desk, struct cli *cli);
void desk_close(struct desk *desk);

/* Requests to the store so far. */
uint64_t desk_requests(struct desk *desk);

/* The name of --partition, or the default one. */
struct view partition_option(struct cli *cli);

/* The folder of --scratch, or where temporary files usually go. */
const char *scratch_folder(struct cli *cli);

/* The programs that commands of the bucket may run here, of --allow-exec and $HOLDFAST_ALLOW_EXEC,
 * without limits. They live as long as the cli. */
enum hf_status take_allow_exec(struct cli *cli, struct allow_exec *ret_allowed);

/* shelf_walk for commands that only look: a catalog that cannot be read is told on stderr, and
 * the rest goes on; the first such reason is returned at the end, as reported. */
typedef enum hf_status desk_visit(void *argument, struct slot *slot,
                                  const struct catalog *catalog,
                                  const struct evidence *evidence);
enum hf_status desk_walk(struct desk *desk, desk_visit *visit, void *argument);

/* The catalogs of the partition by name, those too that cannot be read. */
struct catalog_names {
    struct arena arena;
    struct view *names;
    size_t count;
};

enum hf_status catalog_names_read(struct desk *desk, struct catalog_names *ret_names);
void catalog_names_release(struct catalog_names *names);

/* Chunks that somebody merges at present. */
struct leased_chunks {
    struct arena arena;
    struct map keys;
    struct map barred;      /* partitions whose tables grant nothing, or cannot be read */
    struct view home;       /* that is looked at */
    struct hf_error damage; /* the first table that cannot be read */
    bool failed;            /* out of memory */
};
#define LEASED_CHUNKS_INIT                                        \
    (struct leased_chunks)                                        \
    {                                                             \
        .arena = ARENA_INIT, .keys = MAP_INIT, .barred = MAP_INIT \
    }

/* A table that cannot be read is told on stderr, and the rest goes on; leased_chunks_judge makes
 * that the end of a command that has ended well otherwise. */

enum hf_status leased_chunks_read(struct desk *desk, const struct catalog_names *names,
                                  struct leased_chunks *ret_leased);
enum hf_status leased_chunks_judge(struct cli *cli, const struct leased_chunks *leased,
                                   enum hf_status status);
void leased_chunks_release(struct leased_chunks *leased);
bool chunk_is_leased(void *leased, struct view key);

/* ---- JSON ---------------------------------------------------------------------------- */

json_t *settings_as_json(const struct compact_settings *settings);
json_t *chunk_as_json(const struct chunk *chunk);

#endif
