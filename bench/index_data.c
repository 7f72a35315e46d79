#include "index_data.h"

#include "base/check.h"
#include "bench.h"
#include "place.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS  2
#define SHARDS  256
#define TIME_AT 17 /* seconds between two records */

void must(enum hf_status status, const struct hf_error *error, const char *what)
{
    if (status != HF_OK)
        bench_die("%s: %s: %s", what, hf_status_name(status), error->why);
}

/* ---- Records ------------------------------------------------------------------------- */

struct view data_key(uint64_t number, char space[DATA_KEY_MAX])
{
    int size = snprintf(space, DATA_KEY_MAX, "h%07" PRIu64 ".example.com", number);
    return (struct view){ space, (size_t)size };
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

uint64_t data_in_shard(uint64_t number, struct shard_id shard)
{
    char key[DATA_KEY_MAX];
    while (strcmp(shard_of_key(data_key(number, key), DIGITS).text, shard.text) != 0)
        number++;
    return number;
}

/* ---- A handle ------------------------------------------------------------------------ */

static void saw(void *argument, const struct observation *seen)
{
    struct tally *tally = argument;
    atomic_fetch_add(&tally->calls[seen->kind], 1);
    atomic_fetch_add(&tally->batches[seen->kind], seen->first_of_batch);
    atomic_fetch_add(&tally->bytes_received, seen->bytes_received);
    if (seen->kind == CALL_LIST && !view_starts_with(seen->key, view_of(tally->folder)))
        atomic_fetch_add(&tally->lists_elsewhere, 1);
}

static void create(struct store *store)
{
    struct view fields[] = { VIEW("site"), VIEW("note"), VIEW("updated_at") };
    struct schema *schema = malloc(sizeof *schema);
    struct hf_error error;
    enum index_made made;
    check(schema);
    must(schema_new(fields, 3, fields[0], fields[2], DIGITS, /* foreign */ false, schema,
                    &error),
         &error, "schema");
    must(index_create(store, VIEW(DATA_NAME), schema, &made, &error), &error, "create");
    free(schema);
}

void desk_open(struct desk *desk, const char *url, bool compiles, struct tally *tally)
{
    struct hf_error error;
    *desk = (struct desk){ .client = NULL };
    must(store_open(env_real(), view_of(url), &desk->store, &error), &error, url);
    if (tally)
        must(store_observe(desk->store, (struct observer){ saw, tally }, &desk->store, &error),
             &error, url);
    if (compiles)
        must(client_new(desk->store, NULL, &desk->client, &error), &error, "client");
    enum hf_status status =
        index_open(desk->store, desk->client, VIEW(DATA_NAME), &desk->index, &error);
    if (status == HF_NOT_FOUND) {
        create(desk->store);
        status = index_open(desk->store, desk->client, VIEW(DATA_NAME), &desk->index, &error);
    }
    must(status, &error, "open");
}

void desk_close(struct desk *desk)
{
    index_close(desk->index);
    hf_client_close(desk->client);
    store_close(desk->store);
}

/* ---- Writing ------------------------------------------------------------------------- */

double desk_put(struct desk *desk, const uint64_t *numbers, size_t count, size_t at_once)
{
    static char lines[BATCH_MAX][DATA_LINE_MAX];
    static struct view records[BATCH_MAX];
    struct hf_error error;
    size_t bad;
    double begun = now_s();
    check(at_once <= BATCH_MAX);
    for (size_t at = 0; at < count; at += at_once) {
        size_t size = count - at < at_once ? count - at : at_once;
        for (size_t i = 0; i < size; i++)
            records[i] = data_record(numbers[at + i], lines[i]);
        must(index_put(desk->index, records, size, &bad, &error), &error, "put");
    }
    return now_s() - begun;
}

/* The records of a text, as the index reads them. */
static struct record *records_of(const struct schema *schema, struct view text, size_t count)
{
    struct record *records = calloc(count, sizeof *records);
    struct buffer unused = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    struct view bytes;
    struct hf_error error;
    check(records);
    for (size_t i = 0; record_cut(&text, &bytes); i++)
        must(record_read(schema, bytes, &unused, &records[i], NULL, &error), &error, "record");
    buffer_release(&unused);
    return records;
}

double desk_load(struct desk *desk, uint64_t count)
{
    static struct buffer texts[SHARDS];
    static size_t counts[SHARDS];
    struct compile_options options = COMPILE_OPTIONS;
    struct fold_report report;
    struct hf_error error;
    char line[DATA_LINE_MAX], key[DATA_KEY_MAX];
    for (size_t i = 0; i < SHARDS; i++) {
        texts[i] = BUFFER_INIT(GIB);
        counts[i] = 0;
    }
    double begun = now_s();
    for (uint64_t number = 0; number < count; number++) {
        size_t shard;
        struct shard_id id = shard_of_key(data_key(number, key), DIGITS);
        check(shard_number(view_of(id.text), DIGITS, &shard));
        check(buffer_append(&texts[shard], data_record(number, line)) &&
              buffer_append(&texts[shard], VIEW(RECORD_END)));
        counts[shard]++;
    }
    for (size_t i = 0; i < SHARDS; i++) {
        struct record *records =
            records_of(&desk->index->schema, buffer_view(&texts[i]), counts[i]);
        must(compile_straight(desk->index, &options, shard_of_number(i, DIGITS), records,
                              counts[i], SPAN_S(10), &report, &error),
             &error, "load");
        free(records);
        buffer_release(&texts[i]);
    }
    return now_s() - begun;
}
