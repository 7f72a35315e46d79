/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_parquet_footer.c: parses arbitrary bytes as the footer of a Parquet file. A refused footer
 * must have a reason, and an accepted one counts that fit its size. */
#include "base/check.h"
#include "fuzz.h"
#include "merge/parquet_footer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct parquet_footer footer;
    struct hf_error error = { .why = "" };
    struct view bytes = { (const char *)data, size };
    enum hf_status status = parquet_footer_parse(bytes, &footer, &error);
    if (status != HF_OK)
        check(error.why[0] && (status == HF_INVALID || status == HF_CORRUPT));
    else
        check(footer.columns <= size && footer.row_groups <= size && footer.rows <= INT64_MAX);
    return 0;
}
