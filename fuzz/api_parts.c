/* SPDX-License-Identifier: Apache-2.0 */
/* api_parts.c: options and callbacks for the calls that fuzz_api.c makes on stores, indexes,
 * elections and sweepers; some are wrong on purpose. */
#include "api_parts.h"

#include "base/check.h"

#include <string.h>

/* ---- Stores ---------------------------------------------------------------------------- */

static void trace_request(void *argument, const struct hf_store_request *request)
{
    (void)argument;
    check(request->call < HF_STORE_CALL_COUNT && request->status < HF_STATUS_COUNT);
}

static bool on_progress(void *argument, const struct hf_progress *progress)
{
    (void)argument;
    check(progress->total_bytes == 0 || progress->done_bytes <= progress->total_bytes);
    return play_goes_on();
}

const struct hf_store_options *play_store_options(const struct play *play, int index)
{
    static const struct hf_store_options rows[] = {
        { .coordinates = false },
        { .coordinates = true },
        { .must_exist = true },
        { .trace = trace_request, .coordinates = true },
    };
    return PLAY_ROW(rows);
}

const struct hf_store_get_options *play_get_options(const struct play *play, int index)
{
    struct hf_store_get_options rows[] = {
        { .offset = 0 },
        { .offset = 1, .length = 2 },
        { .offset = UINT64_MAX, .length = UINT64_MAX },
        { .offset = 3, .length = UINT64_MAX },
        { .if_match = "no such", .key_size = 1 },
        { .if_none_match = play->etag },
        { .if_match = "", .if_none_match = "" },
        { .timeout_ms = 1, .progress = on_progress },
        { .timeout_ms = INT64_MIN },
        { .timeout_ms = INT64_MAX },
    };
    return PLAY_ROW(rows);
}

const struct hf_store_put_options *play_put_options(const struct play *play, int index)
{
    struct hf_store_put_options rows[] = {
        { .force = false },
        { .if_absent = true },
        { .if_match = "no such" },
        { .if_match = play->etag },
        { .if_absent = true, .if_match = "both" },
        { .force = true },
        { .key_size = 1, .progress = on_progress },
        { .timeout_ms = INT64_MAX },
        { .timeout_ms = -1 },
    };
    return PLAY_ROW(rows);
}

const struct hf_store_delete_options *play_delete_options(const struct play *play, int index)
{
    struct hf_store_delete_options rows[] = {
        { .force = false }, { .force = true },     { .if_match = "no such" },
        { .key_size = 1 },  { .timeout_ms = -10 }, { .timeout_ms = INT64_MAX },
    };
    return PLAY_ROW(rows);
}

const struct hf_store_list_options *play_list_options(const struct play *play, int index)
{
    static const struct hf_store_list_options rows[] = {
        { .max = 0 },
        { .max = 1 },
        { .delimiter = '/' },
        { .after = "a" },
        { .after = "" },
        { .prefix_size = 1, .after = "abc", .after_size = 2 },
        { .delimiter = '\xff', .max = UINT64_MAX },
        { .timeout_ms = INT64_MIN },
    };
    return PLAY_ROW(rows);
}

static bool each_copied(void *argument, const struct hf_store_copied *copied)
{
    (void)argument, (void)copied;
    return play_goes_on();
}

static bool choose_copied(void *argument, const char *key, size_t key_size)
{
    (void)argument;
    check(strlen(key) <= key_size);
    return play_goes_on();
}

const struct hf_store_copy_options *play_copy_options(const struct play *play, int index)
{
    static const struct hf_store_copy_options rows[] = {
        { .force = false },
        { .if_absent = true },
        { .force = true, .count_first = true, .progress = on_progress },
        { .each = each_copied },
        { .sync = true, .delete_extra = true, .choose = choose_copied },
        { .sync = true, .dry_run = true, .force = true },
        { .source_size = 1, .target_size = 1 },
        { .move = true, .each = each_copied },
        { .source_in_target = "a", .source_in_target_size = 1 },
    };
    return PLAY_ROW(rows);
}

static bool each_finding(void *argument, const struct hf_store_finding *finding)
{
    (void)argument;
    check(finding->what && finding->detail && finding->finding < HF_FINDING_COUNT);
    return play_goes_on();
}

const struct hf_store_probe_options *play_probe_options(const struct play *play, int index)
{
    static const struct hf_store_probe_options rows[] = {
        { .no_save = false },
        { .no_save = true, .each = each_finding },
    };
    return PLAY_ROW(rows);
}

static bool each_scrub_finding(void *argument, const struct hf_scrub_finding *finding)
{
    (void)argument;
    check(finding->key && finding->why && finding->kind < HF_SCRUB_KIND_COUNT);
    return play_goes_on();
}

static bool on_scrub(void *argument, const struct hf_store_scrub_report *report)
{
    (void)argument;
    check(report->position_size < sizeof report->position);
    return play_goes_on();
}

const struct hf_store_scrub_options *play_scrub_options(const struct play *play, int index)
{
    static const struct hf_store_scrub_options rows[] = {
        { .documents = false },
        { .documents = true, .finding = each_scrub_finding },
        { .finding = each_scrub_finding, .progress = on_scrub, .bytes_max = 100 },
        { .prefix = "default/", .after = "metadata/catalog.json#", .rate_max = UINT64_MAX },
        { .after = "a", .after_size = 1, .bytes_max = 1, .progress = on_scrub },
    };
    return PLAY_ROW(rows);
}

static bool each_upgraded(void *argument, const char *key, size_t key_size)
{
    (void)argument;
    check(key && key_size > 0);
    return play_goes_on();
}

const struct hf_store_upgrade_options *play_upgrade_options(const struct play *play, int index)
{
    static const struct hf_store_upgrade_options rows[] = {
        { .dry_run = false },
        { .dry_run = true, .each = each_upgraded },
        { .undo = true },
        { .dry_run = true, .undo = true },
        { .each = each_upgraded, .progress = on_scrub },
    };
    return PLAY_ROW(rows);
}

static bool each_restored(void *argument, const struct hf_store_restored_info *info)
{
    (void)argument;
    check(info->ns || info->table);
    return play_goes_on();
}

const struct hf_store_restored_options *play_restored_options(const struct play *play,
                                                              int index)
{
    static const struct hf_store_restored_options rows[] = {
        { .dry_run = true },
        { .dry_run = false },
        { .ns = "other", .by = "somebody" },
        { .ns = "..", .each = each_restored },
        { .each = each_restored },
    };
    return PLAY_ROW(rows);
}

const struct hf_placement *play_placement(const struct play *play, int index)
{
    static const struct hf_placement rows[] = {
        { .pages = 2, .segments = 1 },
        { .pages = 65536, .segments = 16 },
        { .pages = 1, .segments = 1 },
        { .pages = 7, .segments = 0 },
    };
    return PLAY_ROW(rows);
}

bool each_deleted(void *argument, size_t index, const struct hf_error *error)
{
    (void)argument, (void)index;
    check(error->status < HF_STATUS_COUNT);
    return play_goes_on();
}

bool each_entry(void *argument, const struct hf_store_entry *entry)
{
    (void)argument;
    check(entry->key && strlen(entry->key) <= entry->key_size);
    return play_goes_on();
}

bool each_epoch(void *argument, const struct hf_store_epoch_info *info)
{
    (void)argument;
    check(info->ns);
    return play_goes_on();
}

bool each_name(void *argument, const char *name)
{
    (void)argument;
    check(name);
    return play_goes_on();
}

bool each_got(void *argument, size_t number, struct hf_index_record *record,
              const struct hf_error *why)
{
    (void)argument;
    (void)number;
    check(why && (record != NULL) == (why->status == HF_OK));
    return play_goes_on();
}

/* ---- Indexes --------------------------------------------------------------------------- */

const struct hf_index_options *play_index_options(const struct play *play, int index)
{
    static const char *const fields[] = { "a", "owner", "field", "time" };
    static const char *const bad[] = { "a", "a", "", NULL };
    static const struct hf_index_options rows[] = {
        { .fields = fields, .field_count = 4, .key = "a", .time = "time", .digits = 1 },
        { .fields = fields, .field_count = 4, .key = "a", .time = "time", .no_foreign = true },
        { .fields = fields, .field_count = 2, .key = "a", .time = "owner" },
        { .fields = fields, .field_count = 4, .key = "none", .time = "time" },
        { .fields = fields, .field_count = 4, .key = "a", .time = "time", .digits = 77 },
        { .fields = bad, .field_count = 4, .key = "a", .time = "a" },
        { .fields = NULL, .field_count = 4, .key = "a", .time = "a" },
        { .fields = fields, .field_count = 0, .key = "a", .time = "a" },
        { .fields = fields, .field_count = 4 },
    };
    return PLAY_ROW(rows);
}

static bool on_load(void *argument, const struct hf_index_load_report *report)
{
    (void)argument, (void)report;
    return play_goes_on();
}

static void on_trouble(void *argument, const struct hf_error *why)
{
    (void)argument;
    check(why->status < HF_STATUS_COUNT && why->why[0]);
}

static void on_refused(void *argument, uint64_t line, const struct hf_error *why)
{
    (void)line;
    on_trouble(argument, why);
}

const struct hf_index_load_options *play_load_options(const struct play *play, int index)
{
    static const struct hf_index_load_options rows[] = {
        { .wait_ms = 0 },
        { .wait_ms = 100, .straight = true, .refused = on_refused, .trouble = on_trouble },
        { .wait_ms = 100, .progress = on_load },
        { .wait_ms = INT64_MIN, .straight = true },
        { .wait_ms = -1 },
    };
    return PLAY_ROW(rows);
}

static bool on_query(void *argument, const struct hf_index_progress *progress)
{
    (void)argument;
    check(progress->shards_read <= progress->shards_total);
    return play_goes_on();
}

const struct hf_index_query *play_query(const struct play *play, int index)
{
    static const struct hf_index_condition where[] = { { "owner", "ada", false },
                                                       { "field", "", true } };
    static const struct hf_index_condition bad[] = { { "none", "x", false },
                                                     { NULL, NULL, true } };
    static const struct hf_index_query rows[] = {
        { .prefix = NULL },
        { .prefix = "a", .trouble = on_trouble },
        { .prefix = "", .since = "2026-01-01T00:00:00Z", .progress = on_query },
        { .where = where, .where_count = 2 },
        { .where = bad, .where_count = 1 },
        { .where = bad, .where_count = 2 },
        { .where_count = SIZE_MAX },
        { .where_count = 3 },
        { .since = "some day", .shard = "a" },
        { .shard = "zz" },
        { .shard = "" },
        { .shard = "0" },
    };
    return PLAY_ROW(rows);
}

static bool goes_on(void *argument)
{
    (void)argument;
    return play_goes_on();
}

static void on_shard(void *argument, const struct hf_index_shard *shard)
{
    (void)argument;
    check(shard->shard && shard->why && shard->first_aside);
}

const struct hf_index_compile_options *play_compile_options(const struct play *play, int index)
{
    static const struct hf_index_compile_options rows[] = {
        { .ttl_ms = 60000 },
        { .ttl_ms = 1000, .shard_done = on_shard, .trouble = on_trouble },
        { .ttl_ms = 1000, .watch = true, .go_on = goes_on, .poll_ms = 1 },
        { .ttl_ms = 60000, .wait_ms = 300, .go_on = goes_on },
        { .ttl_ms = 60000, .shard = "a" },
        { .ttl_ms = 60000, .shard = "no shard" },
        { .ttl_ms = INT64_MAX, .wait_ms = INT64_MIN },
        { .ttl_ms = 60000, .wait_ms = -1 },
        { .ttl_ms = 60000, .poll_ms = INT64_MIN },
        { .ttl_ms = 0 },
    };
    return PLAY_ROW(rows);
}

static bool on_counted(void *argument, uint64_t entries)
{
    (void)argument, (void)entries;
    return play_goes_on();
}

static bool on_holder(void *argument, const struct hf_index_holder *holder)
{
    (void)argument;
    check(holder->shard && holder->holder);
    return play_goes_on();
}

static bool on_aside(void *argument, const char *entry, const char *why)
{
    (void)argument;
    check(entry && why);
    return play_goes_on();
}

const struct hf_index_status_options *play_status_options(const struct play *play, int index)
{
    static const struct hf_index_status_options rows[] = {
        { .argument = NULL },
        { .progress = on_counted, .holder = on_holder, .aside = on_aside },
    };
    return PLAY_ROW(rows);
}

static const struct hf_index_value values[][NAMES_MAX] = {
    { { "a", "a" }, { "owner", "ada" }, { "time", "2026-02-06T10:00:00Z" } },
    { { "owner", "eve" }, { "a", "b/\x1f\x1b\n" }, { "time", "1770372000" } },
    { { "a", "a" }, { "a", "b" }, { "owner", "x" } },
    { { "none", "a" }, { "a", "b" }, { "owner", "x" } },
    { { NULL, "a" }, { "a", NULL }, { "", "" } },
    { { "a", "\xff" }, { "time", "never" }, { "owner", "x" } },
};

const struct hf_index_value *play_values(const struct play *play, int index)
{
    uint8_t byte = play_byte(play, index);
    return byte >= 0xf0 ? NULL : values[byte / 4 % PLAY_COUNT(values)];
}

size_t play_value_count(const struct play *play, int index)
{
    return play_byte(play, index) % (NAMES_MAX + 1);
}

const struct hf_index_row *play_rows(const struct play *play, int index)
{
    static struct hf_index_row rows[NAMES_MAX];
    uint8_t byte = play_byte(play, index);
    for (size_t i = 0; i < NAMES_MAX; i++)
        rows[i] = (struct hf_index_row){ values[(byte / 4 + i) % PLAY_COUNT(values)], 3 };
    return byte >= 0xf0 ? NULL : rows;
}

const struct hf_index_bytes *play_records(const struct play *play, int index)
{
    static const struct hf_index_bytes rows[][NAMES_MAX] = {
        { { "a\x1f"
            "ada\x1f\x1f"
            "1770372000",
            17 },
          { "", 0 },
          { NULL, 0 } },
        { { "\xff\n", 2 }, { NULL, 5 }, { "a", 1 } },
        { { "\x1f\x1f\x1f\x1f\x1f\x1f", 6 }, { "a", 1 }, { "b", 1 } },
    };
    uint8_t byte = play_byte(play, index);
    return byte >= 0xf0 ? NULL : rows[byte / 4 % PLAY_COUNT(rows)];
}

/* ---- Election -------------------------------------------------------------------------- */

const struct hf_elect_work *play_work(const struct play *play, int index)
{
    static const struct hf_elect_part parts[] = { { "a", 40 }, { "b", UINT64_MAX }, { "", 0 } };
    static const struct hf_elect_part bad[] = { { "a", 1 }, { "a", 2 }, { NULL, 3 } };
    static const struct hf_elect_work rows[] = {
        { .parts = NULL },
        { .parts = parts, .part_count = 3, .level = 1, .base = 7 },
        { .parts = bad, .part_count = 2 },
        { .parts = bad, .part_count = 3 },
        { .parts = NULL, .part_count = 2 },
        { .parts = parts, .part_count = SIZE_MAX },
        { .parts = parts, .part_count = 2, .level = UINT64_MAX, .base = UINT64_MAX },
    };
    return PLAY_ROW(rows);
}

const struct hf_elect_options *play_elect_options(const struct play *play, int index)
{
    static const struct hf_elect_options rows[] = {
        { .name = NULL },
        { .name = "anna", .beat_ms = 100 },
        { .name = "joe", .label = "Joe \xff", .by_hand = true },
        { .name = "" },
        { .name = "a/b" },
        { .name = "anna", .beat_ms = INT64_MAX },
        { .name = "anna", .beat_ms = INT64_MIN, .label = "" },
    };
    return PLAY_ROW(rows);
}

struct hf_elect_place *play_places(const struct play *play, int index)
{
    static struct hf_elect_place places[NAMES_MAX];
    return play_output(play, index, places);
}

struct hf_cascade *play_cascade(const struct play *play, int index)
{
    static struct hf_cascade cascades[4] = { { { 0 } }, { { 1, 19, 19, 19, 0 } } };
    memset(&cascades[2], 0xff, sizeof cascades[2]);
    return play_output(play, index, &cascades[play_byte(play, index) % 4]);
}

bool each_change(void *argument, const char *name, bool present)
{
    (void)argument, (void)present;
    check(name);
    return play_goes_on();
}

bool each_member(void *argument, const struct hf_elect_info *info)
{
    (void)argument;
    check(info->name);
    return play_goes_on();
}

/* ---- Sweeping -------------------------------------------------------------------------- */

static bool on_sweep(void *argument, const struct hf_sweep_report *report)
{
    (void)argument;
    check(report->stop < HF_SWEEP_STOP_COUNT);
    return play_goes_on();
}

static void on_failed(void *argument, const char *about, const struct hf_error *why)
{
    check(about);
    on_trouble(argument, why);
}

static void on_run(void *argument, const struct hf_sweep_report *report)
{
    (void)argument;
    check(report->stop < HF_SWEEP_STOP_COUNT);
}

const struct hf_sweep_options *play_sweep_options(const struct play *play, int index)
{
    static const struct hf_sweep_options rows[] = {
        { .ops_max = 1000, .runtime_max_ms = 1000 },
        { .ops_max = 1000, .runtime_max_ms = 1000, .full = true, .all_namespaces = true },
        { .ops_max = 1000, .runtime_max_ms = 1000, .dry_run = true },
        { .ops_max = 1000, .runtime_max_ms = 1000, .progress = on_sweep, .failed = on_failed },
        { .ops_max = 1, .runtime_max_ms = 1, .op_delay_ms = 1 },
        { .ops_max = 0 },
        { .ops_max = UINT64_MAX, .runtime_max_ms = INT64_MAX },
        { .ops_max = 10, .runtime_max_ms = 10, .op_delay_ms = INT64_MIN },
    };
    return PLAY_ROW(rows);
}

const struct hf_sweeper_options *play_sweeper_options(const struct play *play, int index)
{
    static const struct hf_sweeper_options rows[] = {
        { .idle_grace_ms = 10, .ops_max = 10, .runtime_max_ms = 100, .ran = on_run },
        { .idle_grace_ms = 10,
          .ops_max = 10,
          .runtime_max_ms = 100,
          .all_namespaces = true,
          .remember = true },
        { .idle_grace_ms = 300000, .ops_max = 10, .runtime_max_ms = 100 },
        { .idle_grace_ms = INT64_MAX, .ops_max = 10, .runtime_max_ms = 100 },
        { .idle_grace_ms = 10, .ops_max = UINT64_MAX, .runtime_max_ms = 100 },
        { .idle_grace_ms = -1 },
    };
    return PLAY_ROW(rows);
}
