/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: keeps the records of sweeps in the store, in .holdfast/sweep/<ns>.json and, for runs
 * over all namespaces, in .holdfast/sweep/.all.json (".all" is not a valid namespace). It also
 * counts the work that is due. The records contain only statistics and a starting point, so the
 * last writer wins. */
#include "base/layout.h"
#include "base/members.h"
#include "sweep/sweep_inside.h"

#include <inttypes.h>
#include <stdio.h>

#define MEMORY_BYTES_MAX  ((size_t)64 * 1024)
#define UNKNOWN_BYTES_MAX ((size_t)32 * 1024)

/* A century. Durations are bounded because they are added up and must not overflow. */
#define DURATION_MS_MAX (UINT64_C(100) * 366 * 86400 * 1000)

/* ---- Members ------------------------------------------------------------------------- */

static const char *stop_word(unsigned value)
{
    return hf_sweep_stop_name((enum hf_sweep_stop)value);
}

/* A later version may know more reasons. */
static bool take_stop(struct member_reader *reader, void *object)
{
    struct view word;
    if (!json_take_plain(reader->json, &word))
        return false;
    for (unsigned i = 0; i < HF_SWEEP_STOP_COUNT; i++)
        if (view_equal(word, view_of(stop_word(i))))
            ((struct sweep_report *)object)->stop = (enum hf_sweep_stop)i;
    return true;
}

#define COUNT(member) \
    MEMBER(sweep_report, #member, MEMBER_U64, member, UINT64_MAX, MEMBER_ALWAYS)

static const struct member report_members[] = {
    { .name = { "stop", 4 },
      .kind = MEMBER_WORD,
      .need = MEMBER_ALWAYS,
      .offset = offsetof(struct sweep_report, stop),
      .word = stop_word,
      .take = take_stop },
    MEMBER(sweep_report, "duration_ms", MEMBER_MS, duration.us, DURATION_MS_MAX, MEMBER_ALWAYS),
    COUNT(runs),
    COUNT(ops),
    COUNT(leases_cleared),
    COUNT(stages_settled),
    COUNT(markers_deleted),
    COUNT(rolled_back),
    COUNT(entries_deleted),
    COUNT(entries_moved),
    COUNT(tables_purged),
    COUNT(states_deleted),
    COUNT(bodies_deleted),
    COUNT(outputs_condemned),
    COUNT(chunks_deleted),
    COUNT(names_dropped),
    COUNT(failed),
    COUNT(stopped_by_activity),
};
static const struct member_table report_table = MEMBER_TABLE(report_members, "");

/* A position that does not fit is not valid: the sweep starts at the beginning. */
#define POSITION(member)                                \
    MEMBER(sweep_cursor, #member, MEMBER_CHARS, member, \
           sizeof((struct sweep_cursor *)NULL)->member, MEMBER_ALWAYS)

static const struct member cursor_members[] = {
    POSITION(lease_entry),
    POSITION(txn_entry),
    POSITION(partition),
    POSITION(full),
    MEMBER(sweep_cursor, "turn", MEMBER_U64, turn, UINT64_MAX, MEMBER_ALWAYS),
    MEMBER(sweep_cursor, "raised_hour", MEMBER_I64, raised_hour, INT64_MAX, MEMBER_ALWAYS),
};
static const struct member_table cursor_table = MEMBER_TABLE(cursor_members, "");

static bool take_memory_format(struct member_reader *reader, void *object)
{
    struct view format;
    (void)object;
    return json_take_plain(reader->json, &format) &&
           (view_equal(format, VIEW(LAYOUT_SWEEP_FORMAT)) ||
            json_fail(reader->json, "unknown format"));
}

static void write_memory_format(const void *object, struct buffer *text)
{
    (void)object;
    json_write_string(text, VIEW(LAYOUT_SWEEP_FORMAT));
}

#define PART(text, member, members)                                                       \
    {                                                                                     \
        .name = { text, sizeof(text) - 1 }, .kind = MEMBER_OBJECT, .need = MEMBER_ALWAYS, \
        .offset = offsetof(struct sweep_memory, member), .table = &(members)              \
    }

static const struct member memory_members[] = {
    { .name = { "format", 6 },
      .need = MEMBER_NEEDED,
      .take = take_memory_format,
      .write = write_memory_format },
    MEMBER(sweep_memory, "at_ms", MEMBER_MS, at.us, INT64_MAX / 1000, MEMBER_ALWAYS),
    PART("cursor", cursor, cursor_table),
    PART("last", last, report_table),
    PART("total", total, report_table),
};
static const struct member_table memory_table = MEMBER_TABLE(memory_members, "no format");

/* ---- The object ---------------------------------------------------------------------- */

static void memory_key(const char *name, char ret_key[KEY_BYTES_MAX + 1])
{
    snprintf(ret_key, KEY_BYTES_MAX + 1, LAYOUT_SWEEP_FOLDER "%s.json", name);
}

static bool encode_memory(const struct sweep_memory *memory, struct view unknown,
                          struct buffer *text)
{
    members_write(&memory_table, memory, '{', text);
    buffer_append(text, unknown);
    return buffer_append(text, VIEW("}\n"));
}

/* `unknown` gets the members that this version does not know; NULL: they are dropped. */
static bool decode_memory(struct view bytes, struct buffer *unknown,
                          struct sweep_memory *ret_memory)
{
    struct json_reader json = json_read(bytes);
    struct member_reader reader = { &json, NULL, unknown, NULL };
    struct sweep_memory memory = { 0 };
    if (!members_read(&reader, &memory_table, &memory) || !json_end(&json) ||
        memory.at.us < 0 || memory.last.duration.us < 0 || memory.total.duration.us < 0)
        return false;
    *ret_memory = memory;
    return true;
}

static enum hf_status write_memory(struct hf_client *client, bool all,
                                   const struct sweep_memory *memory, struct view unknown,
                                   struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct buffer text = BUFFER_INIT(MEMORY_BYTES_MAX);
    enum hf_status status = HF_OK;
    memory_key(all ? LAYOUT_SWEEP_ALL : client_ns(client), key);
    if (!encode_memory(memory, unknown, &text)) {
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

enum hf_status sweep_remember(struct hf_client *client, bool all,
                              const struct sweep_memory *memory, struct hf_error *error)
{
    return write_memory(client, all, memory, VIEW(""), error);
}

static enum hf_status read_memory(struct hf_client *client, const char *name,
                                  struct buffer *unknown, struct sweep_memory *ret_memory,
                                  struct hf_error *error)
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
    if (status == HF_OK && !decode_memory(buffer_view(&text), unknown, &memory)) {
        memory = (struct sweep_memory){ 0 };
        if (unknown)
            unknown->size = 0;
    }
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
    const char *name = all ? LAYOUT_SWEEP_ALL : client_ns(client);
    return read_memory(client, name, NULL, ret_memory, error);
}

/* The record is read again, because another client may have swept since it was last read. */
void sweep_remember_run(struct hf_client *client, bool all, const struct sweep_cursor *cursor,
                        const struct sweep_report *run)
{
    struct sweep_memory memory;
    struct hf_error ignored;
    struct buffer unknown = BUFFER_INIT(UNKNOWN_BYTES_MAX);
    const char *name = all ? LAYOUT_SWEEP_ALL : client_ns(client);
    if (read_memory(client, name, &unknown, &memory, &ignored) == HF_OK) {
        if (cursor)
            memory.cursor = *cursor;
        memory.last = *run;
        sweep_report_add(&memory.total, run);
        memory.at = env_wall(client_env(client));
        write_memory(client, all, &memory, buffer_view(&unknown), &ignored);
    }
    buffer_release(&unknown);
}

enum hf_status sweep_recall_sum(struct hf_client *client, const struct sweep_names *names,
                                struct sweep_memory *ret_memory, struct hf_error *error)
{
    struct sweep_memory sum = { 0 }, one;
    enum hf_status status = read_memory(client, LAYOUT_SWEEP_ALL, NULL, &sum, error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < names->count; i++) {
        status = read_memory(client, names->names[i], NULL, &one, error);
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

/* At most this many pages are counted, plus one per namespace. If there are more, "more" is
 * reported. */
#define DUE_PAGES_MAX 16

struct due_count {
    struct hf_client *client;
    struct hf_sweep_due *due;
    size_t pages, pages_max; /* pages listed so far, and at most */
};

/* Reads the next page, unless the limit has been reached. */
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
