/* SPDX-License-Identifier: Apache-2.0 */
/* index.c: an index of hosts: puts records, compiles them, reads them back and queries them.
 *
 *     index [URL]     for example: index sqlite:jobs.db */
#include <holdfast.h>
#include <inttypes.h>
#include <stdio.h>

static const char *const fields[] = { "host", "owner", "seen" };

static enum hf_status put(struct hf_index *index, const char *host, const char *owner,
                          struct hf_error *error)
{
    const struct hf_index_value values[] = { { "host", host }, { "owner", owner } };
    return hf_index_put(index, values, 2, error); /* no time given: the current time is used */
}

static enum hf_status show(struct hf_index *index, const char *prefix, struct hf_error *error)
{
    struct hf_index_query query = HF_INDEX_QUERY;
    struct hf_index_cursor *cursor;
    struct hf_index_record *record;
    query.prefix = prefix;
    enum hf_status status = hf_index_cursor_open(index, &query, &cursor, error);
    while (status == HF_OK && (status = hf_index_cursor_next(cursor, &record, error)) == HF_OK)
        printf("%s belongs to %s\n", hf_index_record_value(record, "host", NULL),
               hf_index_record_value(record, "owner", NULL));
    hf_index_cursor_close(cursor);
    return status == HF_NOT_FOUND ? HF_OK : status;
}

int main(int argc, char **argv)
{
    struct hf_client *client = NULL;
    struct hf_index *index = NULL;
    struct hf_index_compile_report report = HF_INDEX_COMPILE_REPORT;
    struct hf_index_options options = HF_INDEX_OPTIONS;
    struct hf_error error;
    options.fields = fields, options.field_count = 3;
    options.key = "host", options.time = "seen";
    enum hf_status status = hf_client_open(argc > 1 ? argv[1] : "mem:", NULL, &client, &error);
    if (status == HF_OK)
        status = hf_index_create(client, "hosts", &options, NULL, &index, &error);
    if (status == HF_OK && (status = put(index, "a.example", "joe", &error)) == HF_OK &&
        (status = put(index, "a.example", "ada", &error)) == HF_OK)
        status = hf_index_compile(index, NULL, &report, &error);
    printf("%" PRIu64 " entries are compiled\n", report.folded.entries);
    if (status == HF_OK && (status = put(index, "b.example", "joe", &error)) == HF_OK)
        status = show(index, "", &error); /* compiled records and those still in the inbox */
    if (status != HF_OK)
        fprintf(stderr, "%s: %s\n", hf_status_name(status), error.why);
    hf_index_close(index);
    hf_client_close(client);
    return hf_status_exit_code(status);
}
