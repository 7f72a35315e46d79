/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: keeps the store's records of sweeps, in .holdfast/sweep/<ns>.json and, for runs over
 * all namespaces, .holdfast/sweep/.all.json (not a valid namespace); and counts the work that is
 * due. Records are only statistics and a starting point, so the last writer wins. */
#include "base/json.h"
#include "base/layout.h"
#include "sweep/sweep_inside.h"

#include <inttypes.h>
#include <stdio.h>

#define MEMORY_BYTES_MAX ((size_t)64 * 1024)

/* A century: durations are added up and must not overflow. */
#define DURATION_MS_MAX (UINT64_C(100) * 366 * 86400 * 1000)

/* ---- A report ------------------------------------------------------------------------ */

/* Its numeric members. */
static const struct member {
    const char *name;
    size_t offset;
} members[] = {
#define MEMBER_(name)                               \
    {                                               \
#name, offsetof(struct sweep_report, name), \
    }
    MEMBER_(runs),
    MEMBER_(ops),
    MEMBER_(leases_cleared),
    MEMBER_(stages_settled),
    MEMBER_(markers_deleted),
    MEMBER_(rolled_back),
    MEMBER_(entries_deleted),
    MEMBER_(entries_moved),
    MEMBER_(tables_purged),
    MEMBER_(states_deleted),
    MEMBER_(bodies_deleted),
    MEMBER_(outputs_condemned),
    MEMBER_(chunks_deleted),
    MEMBER_(names_dropped),
    MEMBER_(failed),
    MEMBER_(stopped_by_activity),
#undef MEMBER_
};
#define MEMBERS (sizeof members / sizeof *members)

static uint64_t *report_member(struct sweep_report *report, size_t index)
{
    return (uint64_t *)(void *)((char *)report + members[index].offset);
}

static void write_run_report(const char *name, struct sweep_report report, struct buffer *text)
{
    buffer_print(text, ",\n  \"%s\": { \"stop\": \"%s\", \"duration_ms\": %" PRId64, name,
                 hf_sweep_stop_name(report.stop), report.duration.us / 1000);
    for (size_t i = 0; i < MEMBERS; i++)
        buffer_print(text, ", \"%s\": %" PRIu64, members[i].name, *report_member(&report, i));
    buffer_append(text, VIEW(" }"));
}

static void read_report_member(struct json_reader *reader, struct view name,
                               struct sweep_report *report)
{
    uint64_t duration_ms;
    struct view word;
    if (view_equal(name, VIEW("stop"))) {
        if (!json_take_plain(reader, &word))
            return;
        for (unsigned i = 0; i < HF_SWEEP_STOP_COUNT; i++)
            if (view_equal(word, view_of(hf_sweep_stop_name((enum hf_sweep_stop)i))))
                report->stop = (enum hf_sweep_stop)i;
        return;
    }
    if (view_equal(name, VIEW("duration_ms"))) {
        if (json_take_u64(reader, DURATION_MS_MAX, &duration_ms))
            report->duration = SPAN_MS(duration_ms);
        return;
    }
    for (size_t i = 0; i < MEMBERS; i++)
        if (view_equal(name, view_of(members[i].name))) {
            json_take_u64(reader, UINT64_MAX, report_member(report, i));
            return;
        }
    json_skip(reader, &word);
}

static void read_report(struct json_reader *reader, struct sweep_report *report)
{
    struct view name;
    for (json_enter_object(reader); json_next_member(reader, &name);)
        read_report_member(reader, name, report);
}

/* ---- A cursor ------------------------------------------------------------------------ */

static void write_cursor_text(const char *name, const char *value, struct buffer *text)
{
    buffer_print(text, "\"%s\": ", name);
    json_write_string(text, view_of(value));
    buffer_append(text, VIEW(", "));
}

static void write_cursor(const struct sweep_cursor *cursor, struct buffer *text)
{
    buffer_append(text, VIEW(",\n  \"cursor\": { "));
    write_cursor_text("lease_entry", cursor->lease_entry, text);
    write_cursor_text("txn_entry", cursor->txn_entry, text);
    write_cursor_text("partition", cursor->partition, text);
    write_cursor_text("full", cursor->full, text);
    buffer_print(text, "\"turn\": %" PRIu64 ", \"raised_hour\": %" PRId64 " }", cursor->turn,
                 cursor->raised_hour);
}

/* A text that does not fit is not a valid position: the sweep starts at the beginning. */
static void read_cursor_text(struct json_reader *reader, char *value, size_t size)
{
    struct buffer text = BUFFER_INIT(MEMORY_BYTES_MAX);
    if (json_take_string(reader, &text) && text.size < size &&
        !memchr(buffer_view(&text).data, '\0', text.size)) {
        memcpy(value, buffer_view(&text).data, text.size);
        value[text.size] = '\0';
    }
    buffer_release(&text);
}

static void read_cursor(struct json_reader *reader, struct sweep_cursor *cursor)
{
    struct view name, raw;
    for (json_enter_object(reader); json_next_member(reader, &name);) {
        if (view_equal(name, VIEW("lease_entry")))
            read_cursor_text(reader, cursor->lease_entry, sizeof cursor->lease_entry);
        else if (view_equal(name, VIEW("txn_entry")))
            read_cursor_text(reader, cursor->txn_entry, sizeof cursor->txn_entry);
        else if (view_equal(name, VIEW("partition")))
            read_cursor_text(reader, cursor->partition, sizeof cursor->partition);
        else if (view_equal(name, VIEW("full")))
            read_cursor_text(reader, cursor->full, sizeof cursor->full);
        else if (view_equal(name, VIEW("turn")))
            json_take_u64(reader, UINT64_MAX, &cursor->turn);
        else if (view_equal(name, VIEW("raised_hour")))
            json_take_i64(reader, &cursor->raised_hour);
        else
            json_skip(reader, &raw);
    }
}

/* ---- The object ---------------------------------------------------------------------- */

static void memory_key(const char *name, char ret_key[KEY_BYTES_MAX + 1])
{
    snprintf(ret_key, KEY_BYTES_MAX + 1, LAYOUT_SWEEP_FOLDER "%s.json", name);
}

static bool encode_memory(const struct sweep_memory *memory, struct buffer *text)
{
    buffer_print(text, "{ \"format\": \"" LAYOUT_SWEEP_FORMAT "\", \"at_ms\": %" PRId64,
                 memory->at.us / 1000);
    write_cursor(&memory->cursor, text);
    write_run_report("last", memory->last, text);
    write_run_report("total", memory->total, text);
    return buffer_append(text, VIEW(" }\n"));
}

static bool decode_memory(struct view bytes, struct sweep_memory *ret_memory)
{
    struct json_reader reader = json_read(bytes);
    struct sweep_memory memory = { 0 };
    struct view name, raw, format = VIEW("");
    int64_t at_ms = 0;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("format")))
            json_take_plain(&reader, &format);
        else if (view_equal(name, VIEW("at_ms")))
            json_take_i64(&reader, &at_ms);
        else if (view_equal(name, VIEW("cursor")))
            read_cursor(&reader, &memory.cursor);
        else if (view_equal(name, VIEW("last")))
            read_report(&reader, &memory.last);
        else if (view_equal(name, VIEW("total")))
            read_report(&reader, &memory.total);
        else
            json_skip(&reader, &raw);
    }
    if (!json_end(&reader) || !view_equal(format, VIEW(LAYOUT_SWEEP_FORMAT)) ||
        at_ms > INT64_MAX / 1000 || at_ms < 0)
        return false;
    memory.at.us = at_ms * 1000;
    *ret_memory = memory;
    return true;
}

enum hf_status sweep_remember(struct hf_client *client, bool all,
                              const struct sweep_memory *memory, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct buffer text = BUFFER_INIT(MEMORY_BYTES_MAX);
    enum hf_status status = HF_OK;
    memory_key(all ? LAYOUT_SWEEP_ALL : client_ns(client), key);
    if (!encode_memory(memory, &text)) {
        status = error_no_memory(error);
    } else {
        struct put_call put = { .key = view_of(key),
                                .body = buffer_view(&text),
                                .quiet = true,
                                .deadline = client_deadline(client) };
        status = store_put(client_store(client), &put);
        *error = put.error;
    }
    buffer_release(&text);
    return status;
}

static enum hf_status read_memory(struct hf_client *client, const char *name,
                                  struct sweep_memory *ret_memory, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct buffer text = BUFFER_INIT(MEMORY_BYTES_MAX);
    memory_key(name, key);
    struct get_call get = { .key = view_of(key),
                            .body = &text,
                            .deadline = client_deadline(client) };
    enum hf_status status = store_get(client_store(client), &get);
    struct sweep_memory memory = { 0 };
    clock_learn(client_clock(client), &get.stamp);
    if (status == HF_OK && !decode_memory(buffer_view(&text), &memory))
        memory = (struct sweep_memory){ 0 };
    buffer_release(&text);
    if (status != HF_OK && status != HF_NOT_FOUND && status != HF_INVALID) {
        *error = get.error;
        return status;
    }
    *ret_memory = memory;
    return error_clear(error);
}

enum hf_status sweep_recall(struct hf_client *client, bool all, struct sweep_memory *ret_memory,
                            struct hf_error *error)
{
    return read_memory(client, all ? LAYOUT_SWEEP_ALL : client_ns(client), ret_memory, error);
}

/* Another client may have swept since it was read, so it is read again. */
void sweep_remember_run(struct hf_client *client, bool all, const struct sweep_cursor *cursor,
                        const struct sweep_report *run)
{
    struct sweep_memory memory;
    struct hf_error ignored;
    if (sweep_recall(client, all, &memory, &ignored) != HF_OK)
        return;
    if (cursor)
        memory.cursor = *cursor;
    memory.last = *run;
    sweep_report_add(&memory.total, run);
    memory.at = env_wall(client_env(client));
    sweep_remember(client, all, &memory, &ignored);
}

enum hf_status sweep_recall_sum(struct hf_client *client, const struct sweep_names *names,
                                struct sweep_memory *ret_memory, struct hf_error *error)
{
    struct sweep_memory sum = { 0 }, one;
    enum hf_status status = read_memory(client, LAYOUT_SWEEP_ALL, &sum, error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < names->count; i++) {
        status = read_memory(client, names->names[i], &one, error);
        if (status != HF_OK)
            return status;
        if (one.total.runs == 0)
            continue;
        sweep_report_add(&sum.total, &one.total);
        if (one.at.us > sum.at.us) {
            sum.at = one.at;
            sum.last = one.last;
        }
    }
    *ret_memory = sum;
    return HF_OK;
}

/* ---- How much there is to do --------------------------------------------------------- */

/* The maximum number of pages counted, plus one per namespace; beyond that, "more" is
 * reported. */
#define DUE_PAGES_MAX 16

struct due_count {
    struct hf_client *client;
    struct hf_sweep_due *due;
    size_t pages, pages_max; /* pages listed so far, and at most */
};

/* The next page, unless the limit is reached. */
static bool next_counted_page(struct due_count *count, struct pages *pages)
{
    if (count->pages >= count->pages_max) {
        count->due->more = count->due->more || !pages->begun || pages->list.more;
        return false;
    }
    count->pages++;
    pages->list.deadline = client_deadline(count->client);
    bool there = pages_next(pages, client_store(count->client));
    clock_learn(client_clock(count->client), &pages->list.stamp);
    return there;
}

static enum hf_status count_hours(struct due_count *count, struct view folder, uint64_t *hours,
                                  uint64_t *entries, struct hf_error *error)
{
    struct pages pages = { .list = { .prefix = folder, .delimiter = VIEW("/") } };
    enum hf_status status = HF_OK;
    while (status == HF_OK && next_counted_page(count, &pages))
        for (size_t i = 0; i < pages.list.count; i++) {
            struct view key = pages.list.entries[i].key;
            struct view text = view_from(key, folder.size);
            struct evidence evidence = { .nonce = VIEW("") };
            struct hour hour;
            if (!pages.list.entries[i].is_prefix ||
                !hour_parse(view_first(text, text.size - 1), &hour))
                continue;
            clock_evidence(client_clock(count->client), &evidence);
            if (hour.number >= hour_now(count->client, &evidence).number) {
                count->due->later_hours++;
                continue;
            }
            *hours += 1;
            struct pages inside = { .list = { .prefix = key } };
            while (next_counted_page(count, &inside))
                *entries += inside.list.count;
            status = pages_end(&inside, HF_OK, error);
            if (status != HF_OK)
                break;
        }
    return pages_end(&pages, status, error);
}

enum hf_status sweep_due(struct hf_client *client, const struct sweep_names *names,
                         struct hf_sweep_due *ret_due, struct hf_error *error)
{
    char folder[KEY_BYTES_MAX + 1];
    struct hf_sweep_due due = HF_SWEEP_DUE;
    struct due_count count = { .client = client,
                               .due = &due,
                               .pages_max = DUE_PAGES_MAX + names->count };
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < names->count; i++) {
        expiry_folder(view_of(names->names[i]), folder);
        status =
            count_hours(&count, view_of(folder), &due.lease_hours, &due.lease_entries, error);
        if (status != HF_OK)
            break;
    }
    if (status == HF_OK)
        status = count_hours(&count, VIEW(LAYOUT_TXN_EXPIRY_FOLDER), &due.txn_hours,
                             &due.txn_entries, error);
    if (status == HF_OK)
        *ret_due = due;
    return status;
}
