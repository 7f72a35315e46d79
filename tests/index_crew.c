/* SPDX-License-Identifier: Apache-2.0 */
/* index_crew.c: clients that compile an index. */
#include "index_crew.h"

#include <stdio.h>
#include <stdlib.h>

void crew_open(struct crew *crew, struct store *store)
{
    *crew = (struct crew){ 0 };
    assert_status(HF_OK, client_new(store, NULL, &crew->client, &crew->error), &crew->error);
    assert_status(HF_OK,
                  index_open(store, crew->client, VIEW("domains"), &crew->index, &crew->error),
                  &crew->error);
}

void crew_close(struct crew *crew)
{
    index_close(crew->index);
    hf_client_close(crew->client);
}

struct hf_index_compile_report crew_compile(struct crew *crew)
{
    struct compile_options options = COMPILE_OPTIONS;
    struct hf_index_compile_report totals;
    options.once = true;
    assert_status(HF_OK, index_compile(crew->index, &options, &totals, &crew->error),
                  &crew->error);
    return totals;
}

struct compile_report crew_compile_shard(struct crew *crew, struct shard_id shard)
{
    const struct compile_options options = COMPILE_OPTIONS;
    struct compile_report report;
    compile_shard(crew->index, &options, shard, /* flat */ NULL, 0, &report);
    return report;
}

#define FILL_MAX ((size_t)100)

/* A key of that shard: some number at its end makes it one. Those of the last name are
 * remembered. */
static void name_key(const char *shard, const char *name, size_t n, char key[128])
{
    static struct {
        char of[64];
        unsigned salts[4096]; /* and 1; 0: not known yet */
    } known;
    char of[64];
    snprintf(of, sizeof of, "%s %s", shard, name);
    if (strcmp(of, known.of) != 0) {
        memset(&known, 0, sizeof known);
        snprintf(known.of, sizeof known.of, "%s", of);
    }
    unsigned *memory = n < 4096 ? &known.salts[n] : NULL;
    unsigned salt = memory && *memory > 0 ? *memory - 1 : 0;
    snprintf(key, 128, "%s-%06zu.%u", name, n, salt);
    while (strcmp(yard_shard(key).text, shard) != 0)
        snprintf(key, 128, "%s-%06zu.%u", name, n, ++salt);
    if (memory)
        *memory = salt + 1;
}

void crew_fill(struct crew *crew, const char *shard, const char *name, size_t first,
               size_t count, const char *value)
{
    size_t room = strlen(value) + 256, n = first, bad;
    char *text = malloc(FILL_MAX * room);
    struct view records[FILL_MAX];
    assert_non_null(text);
    for (size_t done = 0; done < count;) {
        size_t filled = 0;
        for (; filled < FILL_MAX && done < count; filled++, done++, n++) {
            char key[128];
            name_key(shard, name, n, key);
            char *record = text + filled * room;
            snprintf(record, room, "%s" US "%s" US "2026-01-%02zuT%02zu:%02zu:00Z", key, value,
                     1 + n / 1440 % 28, n / 60 % 24, n % 60);
            records[filled] = view_of(record);
        }
        assert_status(HF_OK, index_put(crew->index, records, filled, &bad, &crew->error),
                      &crew->error);
    }
    free(text);
}
