/* SPDX-License-Identifier: Apache-2.0 */
/* chunk_key.c: generates the names of new chunks. A name contains the partition that is its home
 * and 128 random bits. It is never reused, so a late put or delete of an old name cannot affect a
 * new chunk. */
#include "base/instant.h"
#include "compact/catalog/catalog_tree.h"

#include <inttypes.h>
#include <stdio.h>

#define MS_PER_DAY    INT64_C(86400000)
#define RANDOM_DIGITS 32

/* The date of a timestamp, clamped to four-digit years. */
static struct date date_of_ms(int64_t ms)
{
    int64_t first = INSTANT_S_MIN * 1000, last = INSTANT_S_MAX * 1000;
    int64_t within = ms < first ? first : ms > last ? last : ms;
    int64_t days = within / MS_PER_DAY - (within % MS_PER_DAY < 0);
    return date_of_days(days);
}

enum hf_status chunk_key_draw(struct env *env, const struct chunk_key_parts *parts,
                              char ret_key[KEY_BYTES_MAX + 1], struct mono_time *ret_drawn,
                              struct hf_error *error)
{
    static const char *const endings[HF_MERGE_CODING_COUNT] = {
        [HF_MERGE_PLAIN] = "", [HF_MERGE_GZIP] = ".gz", [HF_MERGE_ZSTD] = ".zst"
    };
    char random[RANDOM_DIGITS + 1];
    struct date date = date_of_ms(parts->ms);
    if (!layout_partition_valid(parts->partition))
        return error_set(error, HF_INVALID, "invalid partition name '%.*s'",
                         VIEW_ARGS(view_first(parts->partition, 80)));
    *ret_drawn = env_now(env); /* read first, so the name's age is never underestimated */
    env_random_hex(env, RANDOM_DIGITS, random);
    snprintf(ret_key, KEY_BYTES_MAX + 1,
             LAYOUT_DATA_FOLDER "%.*s/L%u/%04" PRIu32 "/%02" PRIu32 "/%s.%s%s",
             VIEW_ARGS(parts->partition), parts->level, date.year, date.month, random,
             hf_merge_format_name(parts->settings->format), endings[parts->settings->coding]);
    return HF_OK;
}
