/* SPDX-License-Identifier: Apache-2.0 */
/* index_data.c: generates the records of an index from their numbers, and loads them. */
#include "index_data.h"

#include "base/check.h"
#include "base/hash.h"
#include "place.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define DIGITS  2
#define TIME_AT 17 /* seconds between two records */

/* ---- Records ------------------------------------------------------------------------- */

const char *data_key(uint64_t number, char space[DATA_KEY_MAX])
{
    snprintf(space, DATA_KEY_MAX, "h%07" PRIu64 ".example.com", number);
    return space;
}

struct view data_record(uint64_t number, char space[DATA_LINE_MAX])
{
    uint64_t mixed = number * UINT64_C(0x9e3779b97f4a7c15);
    int size = snprintf(space, DATA_LINE_MAX,
                        "h%07" PRIu64 ".example.com\x1f"
                        "status 200, %05" PRIu64 " bytes, seen by worker %02" PRIu64
                        ", fingerprint %016" PRIx64 "\x1f%" PRIu64,
                        number, mixed >> 48, mixed >> 32 & 63, mixed,
                        UINT64_C(1770000000) + number % 1000000 * TIME_AT);
    return (struct view){ space, (size_t)size };
}

/* A shard is named by the first digits of the SHA-256 of its keys. */
uint64_t data_in_shard(uint64_t number, const char *shard)
{
    char key[DATA_KEY_MAX], found[DIGITS + 1];
    unsigned char digest[SHA256_BYTES];
    for (;; number++) {
        hash_sha256(view_of(data_key(number, key)), digest);
        snprintf(found, sizeof found, "%02x", digest[0]);
        if (strcmp(found, shard) == 0)
            return number;
    }
}

void write_records(const char *path, uint64_t count)
{
    char line[DATA_LINE_MAX];
    FILE *file = fopen(path, "w");
    check(file);
    for (uint64_t number = 0; number < count; number++)
        fprintf(file, "%.*s\n", VIEW_ARGS(data_record(number, line)));
    check(fclose(file) == 0);
}

/* ---- A handle ------------------------------------------------------------------------ */

static void tally_add(void *argument, const struct hf_store_request *request)
{
    struct tally *tally = argument;
    struct view key = { request->key, request->key_size };
    counts_add(&tally->asked, request);
    if (request->call == HF_STORE_CALL_LIST && !view_starts_with(key, view_of(tally->folder)))
        atomic_fetch_add(&tally->lists_elsewhere, 1);
}

static enum hf_status create(struct desk *desk, struct hf_error *error)
{
    static const char *const fields[] = { "site", "note", "updated_at" };
    struct hf_index_options options = HF_INDEX_OPTIONS;
    options.fields = fields;
    options.field_count = sizeof fields / sizeof *fields;
    options.key = "site";
    options.time = "updated_at";
    options.digits = DIGITS;
    options.no_foreign = true;
    return hf_index_create(desk->at.client, DATA_NAME, &options, NULL, &desk->index, error);
}

void desk_open(struct desk *desk, const char *url, struct tally *tally)
{
    struct hf_error error;
    client_open(&desk->at, url, tally ? tally_add : NULL, tally);
    enum hf_status status = hf_index_open(desk->at.client, DATA_NAME, &desk->index, &error);
    if (status == HF_NOT_FOUND)
        status = create(desk, &error);
    must(status, &error, "open");
}

void desk_close(struct desk *desk)
{
    hf_index_close(desk->index);
    client_close(&desk->at);
}

/* ---- Writing ------------------------------------------------------------------------- */

double desk_put(struct desk *desk, const uint64_t *numbers, size_t count, size_t at_once)
{
    static char lines[PUT_MAX][DATA_LINE_MAX];
    static struct hf_index_bytes records[PUT_MAX];
    struct hf_error error;
    double begun = now_s();
    check(at_once <= PUT_MAX);
    for (size_t at = 0; at < count; at += at_once) {
        size_t size = count - at < at_once ? count - at : at_once;
        for (size_t i = 0; i < size; i++) {
            struct view record = data_record(numbers[at + i], lines[i]);
            records[i] = (struct hf_index_bytes){ record.data, record.size };
        }
        must(hf_index_put_records(desk->index, records, size, NULL, &error), &error, "put");
    }
    return now_s() - begun;
}

double desk_load(struct desk *desk, uint64_t count)
{
    struct hf_index_load_options options = HF_INDEX_LOAD_OPTIONS;
    struct hf_error error;
    char path[600];
    snprintf(path, sizeof path, "%s/load", bench_folder());
    write_records(path, count);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    check(fd >= 0);
    unlink(path);
    options.straight = true;
    double begun = now_s();
    must(hf_index_load(desk->index, fd, HF_INDEX_USV, &options, NULL, &error), &error, "load");
    close(fd);
    return now_s() - begun;
}
