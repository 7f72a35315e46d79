/* SPDX-License-Identifier: Apache-2.0 */
/* merger_kit.c: a store with chunks, and a merger, for tests of the merger. */
#include "merger_kit.h"

#include "base/hash.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

const char *const smithy_bodies[SOURCES] = {
    "a" US "1\nd" US "4\n",
    "b" US "2\ne" US "5\n",
    "c" US "3\nf" US "6\n",
};

void put_source(struct smithy *smithy, size_t index, struct view body, uint64_t rows)
{
    char *key = smithy->keys[index];
    snprintf(key, sizeof smithy->keys[index], "data/default/L0/2026/11/%zu.usv", index);
    world_write(&smithy->world, key, body);
    smithy->sources[index] = (struct chunk){ .key = view_of(key),
                                             .size = body.size,
                                             .rows_known = true,
                                             .rows = rows,
                                             .crc32c = crc32c(0, body) };
}

static const char *const allowed_programs[] = { "/bin/sh", "/usr/bin/sort", "/dev/null",
                                                "/nowhere/no-such-program" };
const struct allow_exec smithy_programs = { .programs = allowed_programs, .count = 4 };

void smithy_open(struct smithy *smithy)
{
    struct hf_error error;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    *smithy = (struct smithy){ .memory_bytes = 16 * MIB };
    world_open(&smithy->world);
    peer_open(&smithy->peer, &smithy->world, &options);
    smithy->scratch = test_dir_make();
    smithy->merger =
        file_merger_new(env_real(), &smithy->peer.way.base, smithy->scratch, 1, &error);
    ASSERT(smithy->merger);
    file_merger_allow(smithy->merger, &smithy_programs);
    smithy->settings = compact_settings_default();
    smithy->settings.format = HF_MERGE_USV;
    smithy->settings.key = VIEW("1");
    for (size_t i = 0; i < SOURCES; i++)
        put_source(smithy, i, view_of(smithy_bodies[i]), 2);
}

size_t files_in(const char *folder)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    ASSERT(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[4600];
        struct stat info;
        if (entry->d_name[0] == '.' || view_equal(view_of(entry->d_name), VIEW("lock")))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        ASSERT(lstat(path, &info) == 0);
        count += S_ISDIR(info.st_mode) ? files_in(path) : 1;
    }
    closedir(dir);
    return count;
}

void smithy_close(struct smithy *smithy)
{
    ASSERT(files_in(smithy->scratch) == 0);
    file_merger_free(smithy->merger);
    peer_close(&smithy->peer);
    world_close(&smithy->world);
    test_dir_remove(smithy->scratch);
}

static bool go_on(void *argument, uint64_t done, uint64_t total)
{
    struct smithy *smithy = argument;
    ASSERT(done <= total && (smithy->asked == 0 || done >= smithy->last_done));
    smithy->last_done = done;
    smithy->last_total = total;
    return ++smithy->asked != smithy->stop_after;
}

enum hf_status merger(struct smithy *smithy)
{
    struct merge_order order = { .settings = &smithy->settings,
                                 .sources = smithy->sources,
                                 .source_count = SOURCES,
                                 .output = VIEW(OUTPUT),
                                 .memory_bytes = smithy->memory_bytes,
                                 .go_on = go_on,
                                 .argument = smithy };
    smithy->asked = 0;
    return smithy->merger->make(smithy->merger, &order, &smithy->product, &smithy->error);
}

void expect_output(struct smithy *smithy, const char *expected)
{
    char *text = world_text(&smithy->world, OUTPUT);
    assert_non_null(text);
    assert_string_equal(text, expected);
    assert_int_equal(smithy->product.size, strlen(text));
    assert_int_equal(smithy->product.crc32c, crc32c(0, view_of(text)));
    free(text);
}
