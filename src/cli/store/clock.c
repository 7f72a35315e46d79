/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c: the command `clock`: prints the bounds on the store time, and the samples they are based
 * on. */
#include "cli/lock/lock.h"

#include <inttypes.h>

/* Fractional seconds, which are easier to compare in a column than durations such as 1m30s. */
static double seconds(int64_t us)
{
    return (double)us / 1e6;
}

struct told_clock {
    struct hf_store_clock_report clock;
    int64_t earliest_ms, latest_ms, width_us;
    struct record_list samples;
};

static const struct field sample_record[] = SAMPLE_RECORD;
const struct field clock_record[] = CLOCK_RECORD;

static void print_date_clock(struct cli *cli, const struct hf_store_clock_report *clock)
{
    char earliest[TIME_TEXT_MAX], latest[TIME_TEXT_MAX];
    output_print(&cli->out,
                 "clock       the store's, as it dates its replies\n"
                 "between     %s\n"
                 "and         %s\n"
                 "width       %.3f s\n"
                 "from ours   %+.3f s to %+.3f s\n"
                 "drift       %" PRIu32 " ppm, allowed for between samples\n"
                 "samples     age         from ours, at least   at most\n",
                 time_text((struct wall_time){ clock->earliest_us }, earliest),
                 time_text((struct wall_time){ clock->latest_us }, latest),
                 seconds(clock->latest_us - clock->earliest_us), seconds(clock->offset_min_us),
                 seconds(clock->offset_max_us), clock->drift_ppm);
    for (size_t i = 0; i < clock->sample_count; i++)
        output_print(&cli->out, "            %-10.3f  %+-20.3f  %+.3f\n",
                     seconds(clock->samples[i].age_us),
                     seconds(clock->samples[i].offset_min_us),
                     seconds(clock->samples[i].offset_max_us));
}

enum hf_status run_clock(struct cli *cli)
{
    struct told_clock told = { .clock = HF_STORE_CLOCK_REPORT };
    const struct hf_store_clock_report *clock = &told.clock;
    char span[SPAN_TEXT_MAX];
    enum hf_status status = hf_store_clock(cli->handle, &told.clock, &cli->error);
    if (status != HF_OK)
        return status;
    told.earliest_ms = clock->earliest_us / 1000;
    told.latest_ms = clock->latest_us / 1000;
    told.width_us = clock->latest_us - clock->earliest_us;
    if (cli->json) {
        for (size_t i = 0; i < clock->sample_count; i++)
            record_list_add(cli, &told.samples, sample_record, &clock->samples[i], "");
        record_tell(cli, clock_record, &told, NULL);
        record_list_release(&told.samples);
    } else if (clock->kind == HF_STORE_CLOCK_DATE) {
        print_date_clock(cli, clock);
    } else if (clock->kind == HF_STORE_CLOCK_BOOT) {
        output_print(&cli->out,
                     "clock       the boot-time clock of this machine, known exactly\n"
                     "boot        %s\n"
                     "since       %s\n",
                     clock->id, brief_text(SPAN_US(clock->since_boot_us), span));
    } else {
        output_text(&cli->out, "clock       none: this store sends no dates, so leases are "
                               "taken over only by watching\n");
    }
    return HF_OK;
}
