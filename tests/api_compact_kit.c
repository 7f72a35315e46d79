/* SPDX-License-Identifier: Apache-2.0 */
/* api_compact_kit.c: a store, a client and a partition for tests of holdfast/compact.h. */
#include "api_compact_kit.h"

#include <stdio.h>
#include <string.h>

static const char *kind = "mem";

bool desk_kind_set(int argc, char **argv)
{
    if (argc > 1)
        kind = argv[1];
    return argc <= 2;
}

struct hf_compact_settings desk_settings(void)
{
    struct hf_compact_settings settings = HF_COMPACT_SETTINGS;
    settings.key = "1";
    settings.time = "2";
    settings.level0_count = 3;
    settings.grace_ms = 0;
    settings.skew_tolerance_ms = 0;
    settings.step_ms = 0;
    return settings;
}

void desk_open(struct desk *desk, const struct hf_compact_settings *settings)
{
    struct hf_compact_options options = HF_COMPACT_OPTIONS;
    *desk = (struct desk){ .folder = test_dir_make() };
    options.scratch_folder = desk->folder;
    if (strcmp(kind, "mem") == 0)
        snprintf(desk->url, sizeof desk->url, "mem:");
    else
        snprintf(desk->url, sizeof desk->url, "%s:%s/store", kind, desk->folder);
    GOOD(desk, hf_client_open(desk->url, NULL, &desk->client, &desk->error));
    GOOD(desk, hf_compact_open(desk->client, "p", &options, &desk->compact, &desk->error));
    if (settings)
        GOOD(desk, hf_compact_create(desk->compact, settings, &desk->error));
}

void desk_close(struct desk *desk)
{
    hf_compact_close(desk->compact);
    hf_client_close(desk->client);
    test_dir_remove(desk->folder);
}

const char *desk_file(struct desk *desk, const char *name, const char *text)
{
    static char paths[8][600];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", desk->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    return path;
}

void desk_fill(struct desk *desk, unsigned count)
{
    static unsigned number;
    for (unsigned i = 0; i < count; i++) {
        char text[80];
        number++;
        snprintf(text, sizeof text, "key%06u\x1f%u\x1fvalue\n", number, 1767225600 + number);
        const char *path = desk_file(desk, "fill.usv", text);
        GOOD(desk, hf_compact_ingest(desk->compact, &path, 1, NULL, NULL, &desk->error));
    }
}

static bool count_chunk(void *argument, const struct hf_chunk_info *chunk)
{
    struct counted *counted = argument;
    if (chunk->state == HF_CHUNK_TOMBSTONE) {
        counted->tombstones++;
        snprintf(counted->grave, sizeof counted->grave, "%s", chunk->key);
    } else if (chunk->state != HF_CHUNK_LIVE) {
        counted->deleting++;
    } else {
        counted->chunks++;
        counted->rows += chunk->rows;
        counted->quarantined += chunk->quarantine[0] != '\0';
        snprintf(counted->first, sizeof counted->first, "%s", chunk->key);
    }
    return true;
}

struct counted desk_count(struct desk *desk)
{
    struct counted counted = { 0 };
    GOOD(desk,
         hf_compact_chunks(desk->compact, HF_CHUNKS_ALL, count_chunk, &counted, &desk->error));
    return counted;
}
