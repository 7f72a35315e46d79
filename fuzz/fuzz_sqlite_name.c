/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_sqlite_name.c: checks the file name of a large object, as a damaged database may contain
 * it. An accepted name must be a single entry of the folder of large objects. */
#include "base/check.h"
#include "base/parse.h"
#include "fuzz.h"
#include "store/sqlite/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool expected = size == LARGE_NAME_SIZE - 1;
    for (size_t i = 0; expected && i < size; i++)
        expected = hex_digit((char)data[i]) >= 0;
    check(large_name_is_good((struct view){ (const char *)data, size }) == expected);
    return 0;
}
