/* chunk_key.c: the names of new chunks. A name is drawn once, holds 128 random bits, and says
 * which catalog it belongs to for ever. */
#include "base/instant.h"
#include "compact/shelf.h"

#include <inttypes.h>
#include <stdio.h>

#define MS_PER_DAY    INT64_C(86400000)
#define RANDOM_DIGITS 32

/* The day of that moment, within the years that have four digits. */
static struct date date_of_ms(int64_t ms)
{
    int64_t first = INSTANT_S_MIN * 1000, last = INSTANT_S_MAX * 1000;
    int64_t within = ms < first ? first : ms > last ? last : ms;
    int64_t days = within / MS_PER_DAY - (within % MS_PER_DAY < 0);
    return date_of_days(days);
}

static const char *ending(enum merge_coding coding)
{
    static const char *const endings[MERGE_CODING_COUNT] = {
        [MERGE_PLAIN] = "", [MERGE_GZIP] = ".gz", [MERGE_ZSTD] = ".zst"
    };
    return endings[coding];
}

enum hf_status chunk_key_draw(struct env *env, struct view partition, unsigned level,
                              int64_t ms, const struct compact_settings *settings,
                              char ret_key[KEY_BYTES_MAX + 1], struct mono_time *ret_drawn,
                              struct hf_error *error)
{
    char random[RANDOM_DIGITS + 1];
    struct date date = date_of_ms(ms);
    if (!layout_partition_valid(partition))
        return error_set(error, HF_INVALID, "'%.*s' is no name of a partition",
                         VIEW_ARGS(view_first(partition, 80)));
    *ret_drawn = env_now(env); /* before: a name is never younger than it says */
    env_random_hex(env, RANDOM_DIGITS, random);
    snprintf(ret_key, KEY_BYTES_MAX + 1,
             LAYOUT_DATA_FOLDER "%.*s/L%u/%04" PRIu32 "/%02" PRIu32 "/%s.%s%s",
             VIEW_ARGS(partition), level, date.year, date.month, random,
             merge_format_name(settings->format), ending(settings->coding));
    return HF_OK;
}
