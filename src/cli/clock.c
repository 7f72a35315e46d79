/* clock.c: `clock`: what is known of the store's clock, and from what. */
#include "cli/lock.h"

#include <inttypes.h>

/* Replies that are asked for. */
#define ASKED 3

/* Asks for something that is not there: cheap, and a reply with a date like any other. */
static enum hf_status ask(struct cli *cli, struct doc_clock *clock)
{
    struct buffer body = BUFFER_INIT(1);
    struct get_call get = { .key = VIEW(".holdfast/clock"), .body = &body };
    enum hf_status status = store_get(cli->store, &get);
    clock_learn(clock, &get.stamp);
    buffer_release(&body);
    if (status == HF_OK || status == HF_NOT_FOUND || status == HF_INVALID)
        return HF_OK;
    cli->error = get.error;
    return status;
}

/* Seconds with their fraction; moments since 1970 would be unreadable as spans. */
static double seconds(int64_t us)
{
    return (double)us / 1e6;
}

static json_t *samples_as_json(const struct clock_sample *samples, size_t count,
                               struct mono_time now)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++)
        json_array_append_new(list,
                              json_pack("{s:I, s:I, s:I}", "age_us",
                                        (json_int_t)mono_since(now, samples[i].taken).us,
                                        "offset_min_us", (json_int_t)samples[i].offset_min_us,
                                        "offset_max_us", (json_int_t)samples[i].offset_max_us));
    return list;
}

static void tell_json(struct cli *cli, const struct evidence *evidence, const char *kind,
                      const struct clock_sample *samples, size_t count)
{
    json_t *object = json_pack("{s:s, s:s%, s:b, s:I}", "kind", kind, "id",
                               evidence->clock.data, evidence->clock.size, "known",
                               evidence->time_known, "now_us", (json_int_t)evidence->now.us);
    if (object && evidence->time_known)
        json_object_update_new(
            object,
            json_pack("{s:I, s:I, s:I, s:I, s:I, s:i, s:o}", "earliest_us",
                      (json_int_t)evidence->earliest.us, "latest_us",
                      (json_int_t)evidence->latest.us, "offset_min_us",
                      (json_int_t)(evidence->earliest.us - evidence->now.us), "offset_max_us",
                      (json_int_t)(evidence->latest.us - evidence->now.us), "width_us",
                      (json_int_t)(evidence->latest.us - evidence->earliest.us), "drift_ppm",
                      CLOCK_DRIFT_PPM, "samples",
                      samples_as_json(samples, count, evidence->now)));
    output_json(&cli->out, object);
}

static void tell_date(struct cli *cli, const struct evidence *evidence,
                      const struct clock_sample *samples, size_t count)
{
    char earliest[TIME_TEXT_MAX], latest[TIME_TEXT_MAX];
    struct output *out = &cli->out;
    /* Against the calendar of this machine, which people know, and not the boot-time clock. */
    int64_t calendar = evidence->wall.us - evidence->now.us;
    output_print(out, "clock       the store's, as it dates its replies\n");
    output_print(out, "between     %s\n",
                 time_text((struct wall_time){ evidence->earliest.us }, earliest));
    output_print(out, "and         %s\n",
                 time_text((struct wall_time){ evidence->latest.us }, latest));
    output_print(out, "width       %.3f s\n",
                 seconds(evidence->latest.us - evidence->earliest.us));
    output_print(out, "from ours   %+.3f s to %+.3f s\n",
                 seconds(evidence->earliest.us - evidence->wall.us),
                 seconds(evidence->latest.us - evidence->wall.us));
    output_print(out, "drift       %d ppm, allowed for between samples\n", CLOCK_DRIFT_PPM);
    output_print(out, "samples     age         from ours, at least   at most\n");
    for (size_t i = 0; i < count; i++)
        output_print(out, "            %-10.3f  %+-20.3f  %+.3f\n",
                     seconds(mono_since(evidence->now, samples[i].taken).us),
                     seconds(samples[i].offset_min_us - calendar),
                     seconds(samples[i].offset_max_us - calendar));
}

static void tell(struct cli *cli, const struct evidence *evidence, enum store_clock kind,
                 const struct clock_sample *samples, size_t count)
{
    char span[SPAN_TEXT_MAX];
    switch (kind) {
    case STORE_CLOCK_DATE: tell_date(cli, evidence, samples, count); break;
    case STORE_CLOCK_BOOT:
        output_print(&cli->out,
                     "clock       the boot-time clock of this machine, known exactly\n"
                     "boot        %.*s\n"
                     "since       %s\n",
                     VIEW_ARGS(evidence->clock), brief_text(SPAN_US(evidence->now.us), span));
        break;
    case STORE_CLOCK_NONE:
        output_text(&cli->out, "clock       none: this store tells no time, so leases are "
                               "taken over only by watching\n");
        break;
    }
}

enum hf_status run_clock(struct cli *cli)
{
    static const char *const kinds[] = {
        [STORE_CLOCK_NONE] = "none", [STORE_CLOCK_BOOT] = "boot", [STORE_CLOCK_DATE] = "date"
    };
    struct clock_sample samples[CLOCK_SAMPLES];
    struct evidence evidence = { .nonce = VIEW("") };
    struct doc_clock clock;
    enum hf_status status = cli_open_objects(cli);
    if (status != HF_OK)
        return status;
    clock_init(&clock, cli->store);
    for (int i = 0; i < ASKED && clock.kind == STORE_CLOCK_DATE && status == HF_OK; i++)
        status = ask(cli, &clock);
    clock_evidence(&clock, &evidence);
    size_t count = clock_samples(&clock, samples);
    if (status == HF_OK && clock.kind == STORE_CLOCK_DATE && count == 0)
        status = error_set(&cli->error, HF_UNSUPPORTED, "no reply of the store had a date");
    if (status == HF_OK && cli->json)
        tell_json(cli, &evidence, kinds[clock.kind], samples, count);
    else if (status == HF_OK)
        tell(cli, &evidence, clock.kind, samples, count);
    clock_release(&clock);
    return status;
}
