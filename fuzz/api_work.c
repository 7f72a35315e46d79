/* SPDX-License-Identifier: Apache-2.0 */
/* api_work.c: options and callbacks for the calls that fuzz_api.c makes on merging, compaction
 * and observation. */
#include "api_parts.h"

#include "base/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Files ----------------------------------------------------------------------------- */

static char folder[128]; /* "" until it is made */

static const struct {
    const char *name, *text;
} files[] = {
    { "a.usv", "a\x1f"
               "1770372000\nb\x1f"
               "1770372001\n" },
    { "b.usv", "b\x1f"
               "1770372005\na\x1f"
               "2026-02-06T10:00:00Z\n" },
    { "c.usv", "no time\n\nc\x1f"
               "1770372009" },
    { "d.csv", "id,at\nx,1770372000\n\"y\n" },
    { "e.ndjson", "{\"id\":1,\"at\":\"2026-02-06T10:00:00Z\"}\n{\n" },
    { "empty", "" },
    { "f.gz", "\x1f\x8b\x08" },
};

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(fd >= 0);
    check(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static const char *in_folder(const char *name, char path[256])
{
    const char *temporary = getenv("TMPDIR");
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "%.90s/holdfast-fuzz-XXXXXX",
                 temporary && temporary[0] ? temporary : "/tmp");
        check(mkdtemp(folder));
        for (size_t i = 0; i < PLAY_COUNT(files); i++)
            write_file(files[i].name, files[i].text);
    }
    snprintf(path, 256, "%s/%s", folder, name);
    return path;
}

void play_remove_files(void)
{
    DIR *listing = folder[0] ? opendir(folder) : NULL;
    struct dirent *entry;
    char path[512];
    while (listing && (entry = readdir(listing)) != NULL) {
        bool known = entry->d_name[0] == '.' || strncmp(entry->d_name, "out.", 4) == 0;
        for (size_t i = 0; i < PLAY_COUNT(files) && !known; i++)
            known = strcmp(entry->d_name, files[i].name) == 0;
        check(known); /* else a merge has left a file behind */
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    if (listing)
        closedir(listing);
    if (folder[0])
        check(rmdir(folder) == 0);
    folder[0] = '\0';
}

const char *const *play_paths(const struct play *play, int index)
{
    static const char *const lists[][NAMES_MAX] = {
        { "a.usv", "b.usv", "c.usv" }, { "c.usv", "a.usv", "a.usv" },
        { "b.usv", "d.csv", "none" },  { "d.csv", "d.csv", NULL },
        { "e.ndjson", "empty", "." },  { "f.gz", "a.usv", "b.usv" },
    };
    static const char *paths[NAMES_MAX];
    static char space[NAMES_MAX][256];
    uint8_t byte = play_byte(play, index);
    const char *const *names = lists[byte / (NAMES_MAX + 1) % PLAY_COUNT(lists)];
    for (size_t i = 0; i < NAMES_MAX; i++)
        paths[i] = names[i] ? in_folder(names[i], space[i]) : NULL;
    return byte >= 0xf0 ? NULL : paths;
}

const char *play_output_path(const struct play *play, int index)
{
    static const char *const names[] = { "out.usv", "out.gz",   "out.zst",
                                         "a.usv",   "none/out", "." };
    static char path[256];
    uint8_t byte = play_byte(play, index);
    return byte >= 0xf0 ? NULL : in_folder(names[byte % PLAY_COUNT(names)], path);
}

/* ---- Merging --------------------------------------------------------------------------- */

static bool on_merge(void *argument, const struct hf_merge_progress *progress)
{
    (void)argument;
    check(progress->struct_size == sizeof *progress);
    return play_goes_on();
}

static void on_unfinished(void *argument, enum hf_merge_part part, const char *path)
{
    (void)argument, (void)path;
    check(part <= HF_MERGE_PART_FOLDER);
}

const struct hf_merge_options *play_merge_options(const struct play *play, int index)
{
    static const struct hf_merge_options rows[] = {
        { .key = "1", .time = "2", .rejects_max = HF_MERGE_REJECTS_ANY, .threads = 1 },
        { .format = HF_MERGE_CONCAT, .threads = 1 },
        { .key = "1", .progress = on_merge, .unfinished = on_unfinished, .threads = 1 },
        { .format = HF_MERGE_CSV, .key = "id", .time = "at", .coding = HF_MERGE_ZSTD },
        { .format = HF_MERGE_CSV, .key = "1", .headless = true, .rejects_max = 1 },
        { .format = HF_MERGE_NDJSON, .key = "id", .rejects_max = 5, .zone = "+02:00" },
        { .format = HF_MERGE_NDJSON, .key = "id", .time = "at", .zone = "UTC" },
        { .key = "1", .time = "2", .zone = "nowhere" },
        { .key = "0", .threads = 99 },
        { .format = HF_MERGE_EXEC },
        { .format = HF_MERGE_EXEC, .command = "/bin/false {inputs} {output}" },
        { .format = HF_MERGE_EXEC, .command = "'", .command_limit_ms = INT64_MAX },
        { .format = HF_MERGE_EXEC, .command = "x", .command_cpu_ms = INT64_MIN },
        { .format = (enum hf_merge_format)77, .coding = (enum hf_merge_coding)77 },
        { .memory_bytes = 1, .record_bytes_max = UINT64_MAX, .threads = 1 },
        { .memory_bytes = UINT64_MAX, .rejects_max = UINT64_MAX, .scratch_folder = "" },
    };
    return PLAY_ROW(rows);
}

const struct hf_merge_file *play_merge_inputs(const struct play *play, int index)
{
    static struct hf_merge_file inputs[NAMES_MAX];
    uint8_t byte = play_byte(play, index);
    const char *const *paths = play_paths(play, index);
    for (size_t i = 0; i < NAMES_MAX; i++)
        inputs[i] = (struct hf_merge_file){ paths && byte & 1 << i ? paths[i] : NULL,
                                            play_file(play, index) };
    return paths ? inputs : NULL;
}

const struct hf_merge_file *play_merge_output(const struct play *play, int index)
{
    static struct hf_merge_file output;
    uint8_t byte = play_byte(play, index);
    output.path = byte & 0x40 ? play_output_path(play, index) : NULL;
    output.fd = play_file(play, index);
    return byte >= 0xf0 ? NULL : &output;
}

/* ---- Compaction ------------------------------------------------------------------------ */

static void on_trouble(void *argument, const struct hf_compact_trouble *trouble)
{
    (void)argument;
    check(trouble->part && trouble->why[0] && trouble->status != HF_OK);
}

const struct hf_compact_options *play_compact_options(const struct play *play, int index)
{
    static const char *const programs[] = { "/bin/false", "false", NULL };
    static const struct hf_compact_options rows[] = {
        { .trouble = on_trouble },
        { .allow_exec = programs, .allow_exec_count = 1, .trouble = on_trouble },
        { .allow_exec = programs, .allow_exec_count = 2 },
        { .allow_exec = programs, .allow_exec_count = 3 },
        { .allow_exec_count = SIZE_MAX },
        { .allow_exec_count = 1 },
        { .exec_cpu_ms = INT64_MIN },
        { .scratch_folder = "/none", .exec_cpu_ms = INT64_MAX },
    };
    return PLAY_ROW(rows);
}

const struct hf_compact_settings *play_settings(const struct play *play, int index)
{
    const struct hf_compact_settings usual = HF_COMPACT_SETTINGS;
    struct hf_compact_settings rows[10];
    for (size_t i = 0; i < PLAY_COUNT(rows); i++) {
        rows[i] = usual;
        rows[i].key = "1";
        rows[i].time = "2";
        rows[i].level0_count = 2;
        rows[i].rejects_max = 2;
    }
    rows[1].policy = HF_COMPACT_CASCADE, rows[1].cascade_base = 2;
    rows[2].format = HF_MERGE_EXEC, rows[2].key = rows[2].time = NULL;
    rows[2].command = "engine {inputs} {output}";
    rows[3].format = HF_MERGE_CSV, rows[3].key = "id", rows[3].time = NULL;
    rows[4].retention_ms = 1000, rows[4].grace_ms = 0, rows[4].tries_max = 1;
    rows[5].format = (enum hf_merge_format)77;
    rows[6].policy = (enum hf_compact_policy)77;
    rows[7].ttl_ms = INT64_MIN;
    rows[8].level0_count = rows[8].level_factor = rows[8].group_max = UINT64_MAX;
    rows[9].backlog_max = 1, rows[9].coding = HF_MERGE_GZIP;
    return PLAY_ROW(rows);
}

static bool on_ingested(void *argument, const struct hf_compact_ingested *ingested)
{
    (void)argument;
    check(ingested->source && ingested->why && ingested->status < HF_STATUS_COUNT);
    return play_goes_on();
}

static bool on_ingest(void *argument, uint64_t sources_done, uint64_t bytes_done)
{
    (void)argument, (void)sources_done, (void)bytes_done;
    return play_goes_on();
}

const struct hf_compact_ingest_options *play_ingest_options(const struct play *play, int index)
{
    static const struct hf_compact_ingest_options rows[] = {
        { .writer = NULL },
        { .writer = "w", .each = on_ingested },
        { .id = "a", .wait_ms = 10, .patience_ms = 10 },
        { .id = "", .progress = on_ingest },
        { .progress = on_ingest, .each = on_ingested },
        { .wait_ms = INT64_MAX, .patience_ms = INT64_MAX },
        { .wait_ms = -1 },
        { .patience_ms = INT64_MIN, .writer = "" },
    };
    return PLAY_ROW(rows);
}

const struct hf_compact_adopt_options *play_adopt_options(const struct play *play, int index)
{
    static const struct hf_compact_adopt_options rows[] = {
        { .own = false },
        { .own = true, .writer = "w", .each = on_ingested },
        { .manifest = "/dev/null", .wait_ms = 10, .patience_ms = 10 },
        { .manifest = "", .progress = on_ingest },
        { .wait_ms = -1 },
        { .patience_ms = INT64_MIN, .writer = "" },
    };
    return PLAY_ROW(rows);
}

const struct hf_compact_reader_options *play_reader_options(const struct play *play, int index)
{
    static const struct hf_compact_reader_options rows[] = {
        { .ttl_ms = 0 }, { .ttl_ms = 1000 }, { .ttl_ms = 1 }, { .ttl_ms = INT64_MIN }
    };
    return PLAY_ROW(rows);
}

static bool on_export(void *argument, const struct hf_compact_export_progress *progress)
{
    (void)argument;
    check(progress->bytes_done <= progress->bytes_total);
    return play_goes_on();
}

const struct hf_compact_export_options *play_export_options(const struct play *play, int index)
{
    static const struct hf_compact_export_options rows[] = {
        { .until_ms = INT64_MAX },
        { .convert = true,
          .format = HF_MERGE_NDJSON,
          .since_ms = INT64_MIN,
          .until_ms = INT64_MAX },
        { .convert = true, .format = HF_MERGE_CSV, .key_prefix = "a", .until_ms = INT64_MAX },
        { .convert = true, .format = HF_MERGE_EXEC },
        { .progress = on_export, .skip_quarantined = true, .until_ms = INT64_MAX },
        { .since_ms = 1, .until_ms = 0, .threads = 1000 },
        { .memory_bytes = 1, .coding = HF_MERGE_GZIP },
        { .threads = 1000 },
    };
    return PLAY_ROW(rows);
}

static bool on_row(void *argument, const struct hf_compact_row *row)
{
    (void)argument;
    check(row->bytes && row->size > 0);
    return play_goes_on();
}

bool (*play_on_row(const struct play *play, int index))(void *argument,
                                                        const struct hf_compact_row *row)
{
    return play_byte(play, index) == 255 ? NULL : on_row;
}

static enum hf_status merge_own(void *argument, const struct hf_merger_job *job,
                                struct hf_merged *merged, struct hf_error *error)
{
    (void)argument;
    check(job->source_count > 0 && job->sources[0].key && job->partition);
    if (!hf_merger_goes_on(job, 1) || !play_goes_on()) {
        error->status = HF_CORRUPT;
        snprintf(error->why, sizeof error->why, "no longer");
        merged->culprit = job->source_count;
        return HF_CORRUPT;
    }
    int fd = open(job->output, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        check(write(fd, "merged", 6) == 6);
        close(fd);
    }
    merged->rows_known = true;
    merged->rows_in = job->source_count;
    merged->rows_out = job->source_count + 1; /* more than there were */
    return HF_OK;
}

static bool on_compact(void *argument, const struct hf_compact_event *event)
{
    (void)argument;
    check(event->kind < HF_COMPACT_EVENT_COUNT && event->totals && event->why);
    check(!event->group || event->group->source_count > 0);
    return play_goes_on();
}

static const struct hf_merger mergers[] = {
    { .struct_size = sizeof(struct hf_merger), .name = "engine", .merge = merge_own },
    { .struct_size = sizeof(struct hf_merger), .merge = merge_own },
    { .struct_size = sizeof(struct hf_merger) },
    { .struct_size = 0 },
};

#define SMALL .jobs = 1, .threads = 1, .memory_bytes = UINT64_C(8) << 20, .poll_ms = 10

const struct hf_compact_worker_options *play_run_options(const struct play *play, int index)
{
    static const struct hf_compact_worker_options rows[] = {
        { .mode = HF_COMPACT_ONCE, SMALL },
        { .mode = HF_COMPACT_ONCE, SMALL, .force = true, .event = on_compact },
        { .mode = HF_COMPACT_DRAIN, SMALL, .event = on_compact },
        { .mode = HF_COMPACT_DRAIN, SMALL, .force = true, .label = "w" },
        { .mode = HF_COMPACT_ONCE, SMALL, .merger = &mergers[0], .force = true },
        { .mode = HF_COMPACT_ONCE, SMALL, .merger = &mergers[1], .event = on_compact },
        { .mode = HF_COMPACT_ONCE, SMALL, .merger = &mergers[2] },
        { .mode = HF_COMPACT_ONCE, SMALL, .merger = &mergers[3] },
        { .mode = (enum hf_compact_mode)77, SMALL },
        { .jobs = 65 },
        { .threads = UINT32_MAX },
        { .memory_bytes = 1, .label = "" },
        { .poll_ms = INT64_MIN },
    };
    return PLAY_ROW(rows);
}

const struct hf_compact_worker_options *play_worker_options(const struct play *play, int index)
{
    static const struct hf_compact_worker_options rows[] = {
        { .mode = HF_COMPACT_WATCH, SMALL, .event = on_compact },
        { .mode = HF_COMPACT_WATCH, SMALL, .force = true, .merger = &mergers[1] },
        { .mode = HF_COMPACT_NOTIFY, SMALL, .event = on_compact },
        { .mode = HF_COMPACT_NOTIFY, SMALL },
        { .mode = HF_COMPACT_WATCH, SMALL },
        { .mode = HF_COMPACT_WATCH, SMALL, .event = on_compact, .beat_ms = 100 },
        { .mode = HF_COMPACT_WATCH, SMALL, .beat_ms = INT64_MIN },
    };
    return play_byte(play, index) & 8 ? play_run_options(play, index) : PLAY_ROW(rows);
}

static bool on_job(void *argument, const struct hf_compact_job_info *job)
{
    (void)argument;
    check(job->holder && job->state && job->output);
    return play_goes_on();
}

static bool on_record(void *argument, const struct hf_compact_record *record)
{
    (void)argument;
    check(record->id && record->worker && record->end && record->why);
    return play_goes_on();
}

static bool on_catalog(void *argument, const struct hf_compact_catalog *catalog)
{
    (void)argument;
    check(catalog->partition);
    return play_goes_on();
}

static bool on_member(void *argument, const struct hf_compact_member *member)
{
    (void)argument;
    check(member->fingerprint);
    return play_goes_on();
}

const struct hf_compact_status_options *play_overview_options(const struct play *play,
                                                              int index)
{
    static const struct hf_compact_status_options rows[] = {
        { .argument = NULL },
        { .each_job = on_job,
          .each_record = on_record,
          .each_catalog = on_catalog,
          .each_member = on_member },
    };
    return PLAY_ROW(rows);
}

static bool on_drop(void *argument)
{
    (void)argument;
    return play_goes_on();
}

const struct hf_compact_drop_options *play_drop_options(const struct play *play, int index)
{
    static const struct hf_compact_drop_options rows[] = {
        { .dry_run = true },
        { .dry_run = false },
        { .progress = on_drop },
    };
    return PLAY_ROW(rows);
}

static bool on_finding(void *argument, const struct hf_fsck_finding *finding)
{
    (void)argument;
    check(finding->kind < HF_FSCK_KIND_COUNT && finding->key && finding->why);
    return play_goes_on();
}

static bool on_fsck(void *argument, uint64_t done, uint64_t total, uint64_t bytes_done)
{
    (void)argument, (void)done, (void)total, (void)bytes_done;
    return play_goes_on();
}

const struct hf_fsck_options *play_fsck_options(const struct play *play, int index)
{
    static const struct hf_fsck_options rows[] = {
        { .repair = false },
        { .repair = true, .age_ms = -1, .finding = on_finding },
        { .shallow = true, .finding = on_finding, .progress = on_fsck },
        { .age_ms = INT64_MAX, .scratch_folder = "/none" },
        { .age_ms = INT64_MIN, .repair = true },
    };
    return PLAY_ROW(rows);
}

/* It may call anything. */
bool each_chunk(void *argument, const struct hf_chunk_info *chunk)
{
    struct play *play = argument;
    bool start;
    check(chunk->key && chunk->partition && chunk->writer && chunk->quarantine && chunk->into);
    snprintf(play->chunk, sizeof play->chunk, "%s", chunk->key);
    hf_compact_should_start(play->slots[KIND_COMPACT][0].handle, &start, NULL, NULL);
    return play_goes_on();
}

bool each_group(void *argument, const struct hf_compact_group *group)
{
    (void)argument;
    check(group->source_count > 0 && group->sources[0] && group->partition);
    return play_goes_on();
}

const char *play_chunk(const struct play *play, int index)
{
    return play_byte(play, index) < 0x80 ? play->chunk : play_text(play, index);
}

const char *const *play_chunks(const struct play *play, int index)
{
    static const char *keys[NAMES_MAX];
    uint8_t byte = play_byte(play, index);
    keys[0] = play->chunk;
    keys[1] = byte & 0x40 ? NULL : play->chunk;
    keys[2] = "data/default/L0/2026/01/none.usv";
    return byte >= 0xf0 ? NULL : keys;
}

/* ---- Observing ------------------------------------------------------------------------- */

static void on_damaged(void *argument, const char *key, const struct hf_error *why)
{
    (void)argument;
    check(key && why->status != HF_OK && why->why[0]);
}

static bool proceeds(void *argument)
{
    (void)argument;
    return play_goes_on();
}

const struct hf_list_options *play_look_options(const struct play *play, int index)
{
    static const struct hf_list_options rows[] = {
        { .ended = false },
        { .ended = true, .waiting = true },
        { .waiting = true, .damaged = on_damaged, .proceed = proceeds },
    };
    return PLAY_ROW(rows);
}

bool each_lease(void *argument, const struct hf_lease_info *lease)
{
    (void)argument;
    check(lease->struct_size == sizeof *lease && lease->state < HF_LEASE_STATE_COUNT);
    check(lease->table && lease->id && lease->lease && lease->holder && lease->note);
    check(lease->scope_count == 0 || lease->scopes[0]);
    return play_goes_on();
}

bool each_audit(void *argument, const char *json)
{
    (void)argument;
    check(json[0] == '{');
    return play_goes_on();
}

bool each_hold(void *argument, const struct hf_hold *hold)
{
    (void)argument;
    check(hold->struct_size == sizeof *hold && hold->owner && hold->holder && hold->began);
    return play_goes_on();
}

bool each_lease_change(void *argument, enum hf_change change, const struct hf_lease_info *lease)
{
    check(change < HF_CHANGE_COUNT);
    return each_lease(argument, lease);
}

bool each_path(void *argument, const struct hf_compact_path *path)
{
    (void)argument;
    check(path->path[0]);
    return !path->releasing;
}

bool each_blocker(void *argument, const char *scope, const struct hf_lease_info *lease)
{
    check(scope[0]);
    return each_lease(argument, lease);
}

bool each_key(void *argument, const char *name, const struct hf_key_info *info,
              const struct hf_key_status *status)
{
    (void)argument;
    check(name[0] && info->struct_size == sizeof *info && status->struct_size > 0);
    return play_goes_on();
}

bool each_txn(void *argument, const struct hf_txn_info *txn)
{
    (void)argument;
    check(txn->id && txn->holder && txn->state < HF_TXN_STATE_COUNT);
    return play_goes_on();
}
