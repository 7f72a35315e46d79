/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_bucket_format.c: parses arbitrary bytes as the format document of a bucket. The document
 * must be accepted or refused in one of the known ways, the same each time, and an accepted one
 * must still be accepted after a probe has written its verdict into it. */
#include "base/check.h"
#include "base/layout.h"
#include "fuzz.h"
#include "store/bucket.h"

static enum hf_status check_with(struct view document, enum bucket_use use, bool probe)
{
    struct store *store;
    struct hf_error error;
    struct probe_report report;
    struct put_call put = { .key = VIEW(LAYOUT_BUCKET_KEY), .body = document };
    check(store_open(env_real(), VIEW("mem:"), &store, &error) == HF_OK);
    check(store_put(store, &put) == HF_OK);
    enum hf_status status = bucket_check(store, use, &error);
    check(status == HF_OK || (error.status == status && error.why[0]));
    if (probe && status == HF_OK && store->barred.status == HF_OK) {
        enum hf_status kept = bucket_probe(store, /* keep */ true, &report, &error);
        check(kept == HF_OK || kept == HF_UNAVAILABLE); /* the document would be too long */
        check(bucket_check(store, use, &error) == HF_OK);
    }
    store_close(store);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view document = { (const char *)data, size };
    enum hf_status by_hand = check_with(document, BUCKET_OBJECTS, /* probe */ false);
    enum hf_status for_locks = check_with(document, BUCKET_LOCKS, /* probe */ true);
    check(by_hand == HF_OK || by_hand == HF_UNSUPPORTED);
    check(for_locks == HF_OK || for_locks == HF_UNSUPPORTED || for_locks == HF_CORRUPT);
    check(by_hand == HF_OK || for_locks == HF_UNSUPPORTED);
    return 0;
}
