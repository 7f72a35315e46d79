/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_txn_record.c: parses arbitrary bytes as a decision record. An accepted record must be
 * written and read back as the same. */
#include "base/check.h"
#include "fuzz.h"
#include "key/record.h"

#define NONCE VIEW("0123456789abcdef0123456789abcdef")

static void survives_the_round_trip(const struct txn_record *record)
{
    struct buffer text = BUFFER_INIT(2 * RECORD_BYTES_MAX);
    struct txn_record again;
    struct hf_error error;
    check(record_encode(record, NONCE, &text));
    check(record_decode(buffer_view(&text), &again, &error) == HF_OK);
    check(again.state == record->state && strcmp(again.id, record->id) == 0);
    check(strcmp(again.owner, record->owner) == 0 && again.open == record->open);
    check(again.applied == record->applied && again.key_count == record->key_count);
    for (size_t i = 0; i < record->key_count; i++)
        check(record_names(&again, &record->keys[i]));
    record_release(&again);
    buffer_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct txn_record record;
    struct hf_error error;
    enum hf_status status =
        record_decode((struct view){ (const char *)data, size }, &record, &error);
    check(status == HF_OK || error.status == status);
    if (status == HF_OK) {
        check(record.state != TXN_ABSENT && record.key_count <= TXN_KEYS_MAX);
        survives_the_round_trip(&record);
        record_release(&record);
    }
    return 0;
}
