/* clock.c: `clock`: what is known of the store's clock, and from what. */
#include "cli/json_add.h"
#include "cli/lock.h"

#include <inttypes.h>

/* Seconds with their fraction; moments since 1970 would be unreadable as spans. */
static double seconds(int64_t us)
{
    return (double)us / 1e6;
}

static json_t *samples_as_json(const struct hf_store_clock_report *clock)
{
    json_t *list = json_array();
    for (size_t i = 0; i < clock->sample_count; i++) {
        const struct hf_store_clock_sample *sample = &clock->samples[i];
        json_t *object = json_object();
        json_add_span(&object, "age_ms", SPAN_US(sample->age_us));
        json_add_span(&object, "offset_min_ms", SPAN_US(sample->offset_min_us));
        json_add_span(&object, "offset_max_ms", SPAN_US(sample->offset_max_us));
        json_push(&list, object);
    }
    return list;
}

static void tell_json(struct cli *cli, const struct hf_store_clock_report *clock)
{
    json_t *object = json_object();
    json_add(&object, "kind", json_string(hf_store_clock_name(clock->kind)));
    json_add(&object, "id", json_string(clock->id));
    json_add_bool(&object, "known", clock->known);
    json_add_span(&object, "since_boot_ms", SPAN_US(clock->since_boot_us));
    if (clock->known) {
        json_add_span(&object, "width_ms", SPAN_US(clock->latest_us - clock->earliest_us));
        json_add_count(&object, "drift_ppm", clock->drift_ppm);
    }
    if (clock->sample_count > 0) {
        json_add_time_ms(&object, "earliest_at", clock->earliest_us / 1000);
        json_add_time_ms(&object, "latest_at", clock->latest_us / 1000);
        json_add_span(&object, "offset_min_ms", SPAN_US(clock->offset_min_us));
        json_add_span(&object, "offset_max_ms", SPAN_US(clock->offset_max_us));
        json_add(&object, "samples", samples_as_json(clock));
    }
    output_json(&cli->out, object);
}

static void tell_date(struct cli *cli, const struct hf_store_clock_report *clock)
{
    char earliest[TIME_TEXT_MAX], latest[TIME_TEXT_MAX];
    struct output *out = &cli->out;
    output_print(out, "clock       the store's, as it dates its replies\n");
    output_print(out, "between     %s\n",
                 time_text((struct wall_time){ clock->earliest_us }, earliest));
    output_print(out, "and         %s\n",
                 time_text((struct wall_time){ clock->latest_us }, latest));
    output_print(out, "width       %.3f s\n", seconds(clock->latest_us - clock->earliest_us));
    output_print(out, "from ours   %+.3f s to %+.3f s\n", seconds(clock->offset_min_us),
                 seconds(clock->offset_max_us));
    output_print(out, "drift       %" PRIu32 " ppm, allowed for between samples\n",
                 clock->drift_ppm);
    output_print(out, "samples     age         from ours, at least   at most\n");
    for (size_t i = 0; i < clock->sample_count; i++)
        output_print(out, "            %-10.3f  %+-20.3f  %+.3f\n",
                     seconds(clock->samples[i].age_us),
                     seconds(clock->samples[i].offset_min_us),
                     seconds(clock->samples[i].offset_max_us));
}

static void tell(struct cli *cli, const struct hf_store_clock_report *clock)
{
    char span[SPAN_TEXT_MAX];
    switch (clock->kind) {
    case HF_STORE_CLOCK_DATE: tell_date(cli, clock); break;
    case HF_STORE_CLOCK_BOOT:
        output_print(&cli->out,
                     "clock       the boot-time clock of this machine, known exactly\n"
                     "boot        %s\n"
                     "since       %s\n",
                     clock->id, brief_text(SPAN_US(clock->since_boot_us), span));
        break;
    case HF_STORE_CLOCK_NONE:
    case HF_STORE_CLOCK_COUNT:
        output_text(&cli->out, "clock       none: this store tells no time, so leases are "
                               "taken over only by watching\n");
        break;
    }
}

enum hf_status run_clock(struct cli *cli)
{
    struct hf_store_clock_report clock = HF_STORE_CLOCK_REPORT;
    enum hf_status status = cli_open_objects(cli);
    if (status == HF_OK)
        status = hf_store_clock(cli->handle, &clock, &cli->error);
    if (status == HF_OK && cli->json)
        tell_json(cli, &clock);
    else if (status == HF_OK)
        tell(cli, &clock);
    return status;
}
