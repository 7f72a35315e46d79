/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_index_record.c: parses arbitrary bytes as records of an index, and as the name of an
 * object. An accepted record must be written again as the same bytes, and a refused one must
 * have a reason. */
#include "base/check.h"
#include "fuzz.h"
#include "index/name.h"
#include "index_schema.h"

#define INPUT_MAX 4096

/* Every field is read, and the values make the same record again. */
static void record_holds(const struct record *record)
{
    struct buffer values[FIELDS], again = BUFFER_INIT(INPUT_MAX);
    struct view views[FIELDS], rest = record->bytes;
    bool more = true;
    size_t count = 0;
    for (; more; count++) {
        check(count < FIELDS);
        values[count] = BUFFER_INIT(INPUT_MAX);
        check(field_read(&values[count], field_cut(&rest, &more)));
        views[count] = buffer_view(&values[count]);
    }
    check(view_equal(record->key, views[0]));
    check(record_write(&again, views, count));
    check(view_equal(buffer_view(&again), record->bytes));
    check(record_compare(record, record) == 0);
    for (size_t i = 0; i < count; i++)
        buffer_release(&values[i]);
    buffer_release(&again);
}

/* The name of its entry gives its key and its time. */
static void entry_holds(const struct schema *schema, const struct record *record)
{
    struct buffer key = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    char object[KEY_BYTES_MAX + 1];
    check(entry_key(VIEW("x"), schema, record, "0123456789abcdef0123456789abcdef", object));
    struct view rest = view_from(view_of(object), sizeof "indexes/x/" - 1);
    struct entry_name name = entry_read(rest, schema->digits, &key);
    check(name.kind == ENTRY_OURS && instant_compare(name.time, record->time) == 0);
    check(name.hashed || view_equal(buffer_view(&key), record->key));
    buffer_release(&key);
}

static void name_holds(const struct schema *schema, struct view rest)
{
    struct buffer key = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    struct entry_name name = entry_read(rest, schema->digits, &key);
    bool known = name.kind == ENTRY_OURS || name.kind == ENTRY_FOREIGN;
    check(known == (name.hashed || key.size > 0));
    if (key.size > 0) {
        struct shard_id shard = shard_of_key(buffer_view(&key), schema->digits);
        check(strcmp(name.shard.text, shard.text) == 0);
    }
    buffer_release(&key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view input = { (const char *)data, size }, rest = input, bytes;
    struct schema schema = schema_of_fields();
    struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    struct record record;
    if (size > INPUT_MAX)
        return 0;
    while (record_cut(&rest, &bytes)) {
        struct hf_error error = { .why = "" };
        if (record_read(&schema, bytes, &space, &record, NULL, &error) == HF_OK) {
            record_holds(&record);
            entry_holds(&schema, &record);
        } else {
            check(error.status == HF_INVALID && error.why[0] != '\0');
        }
    }
    name_holds(&schema, input);
    buffer_release(&space);
    return 0;
}
