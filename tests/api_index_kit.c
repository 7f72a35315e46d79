/* SPDX-License-Identifier: Apache-2.0 */
/* api_index_kit.c: an index of hosts for tests of holdfast/index.h. */
#include "api_index_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const fields[] = { "host", "owner", "seen", "note" };

struct hf_index_options hosts_options(size_t count)
{
    struct hf_index_options options = HF_INDEX_OPTIONS;
    options.fields = fields;
    options.field_count = count;
    options.key = "host";
    options.time = "seen";
    options.digits = 1;
    return options;
}

struct hf_index *hosts_make(struct place *place)
{
    struct hf_index_options options = hosts_options(3);
    struct hf_index *index;
    OK(hf_index_create(place->client, "hosts", &options, NULL, &index, &place->error));
    return index;
}

enum hf_status hosts_put(struct place *place, struct hf_index *index, const char *host,
                         const char *owner, const char *seen)
{
    const struct hf_index_value values[] = { { "host", host },
                                             { "seen", seen },
                                             { "owner", owner } };
    return hf_index_put(index, values, 3, &place->error);
}

void hosts_put_forty(struct place *place, struct hf_index *index)
{
    char key[8];
    for (int i = 0; i < 40; i++) {
        snprintf(key, sizeof key, "h%d", i);
        OK(hosts_put(place, index, key, "ada", T1));
    }
}

void assert_owner(struct place *place, struct hf_index *index, const char *host,
                  const char *owner)
{
    struct hf_index_record *record;
    OK(hf_index_get(index, host, &record, &place->error));
    assert_string_equal(hf_index_record_value(record, "host", NULL), host);
    assert_string_equal(hf_index_record_value(record, "owner", NULL), owner);
    hf_index_record_free(record);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *hosts_found(struct place *place, struct hf_index *index,
                        const struct hf_index_query *query)
{
    static char text[500];
    char *keys[20];
    size_t count = 0;
    uint64_t counted;
    struct hf_index_cursor *cursor;
    struct hf_index_record *record;
    struct hf_index_progress progress = HF_INDEX_PROGRESS;
    enum hf_status status;
    OK(hf_index_cursor_open(index, query, &cursor, &place->error));
    while ((status = hf_index_cursor_next(cursor, &record, &place->error)) == HF_OK)
        keys[count++] = strdup(hf_index_record_value(record, "host", NULL));
    assert_int_equal(status, HF_NOT_FOUND);
    OK(hf_index_cursor_progress(cursor, &progress, &place->error));
    assert_int_equal(progress.records, count);
    IS(HF_NOT_FOUND, hf_index_cursor_next(cursor, &record, &place->error));
    hf_index_cursor_close(cursor);
    OK(hf_index_count(index, query, &counted, &place->error));
    assert_int_equal(counted, count);
    qsort(keys, count, sizeof *keys, compare_keys);
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "",
                 keys[i]);
        free(keys[i]);
    }
    return text;
}
