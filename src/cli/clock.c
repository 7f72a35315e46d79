/* clock.c: `clock`: what is known of the store's clock, and from what. */
#include "cli/json_add.h"
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

/* Offsets are from the calendar of this machine, which people know, and not the boot-time clock. */
static int64_t calendar_us(const struct evidence *evidence)
{
    return evidence->wall.us - evidence->now.us;
}

static json_t *samples_as_json(const struct clock_sample *samples, size_t count,
                               const struct evidence *evidence)
{
    int64_t calendar = calendar_us(evidence);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *object = json_object();
        json_add_span(&object, "age_ms", mono_since(evidence->now, samples[i].taken));
        json_add_span(&object, "offset_min_ms", SPAN_US(samples[i].offset_min_us - calendar));
        json_add_span(&object, "offset_max_ms", SPAN_US(samples[i].offset_max_us - calendar));
        json_push(&list, object);
    }
    return list;
}

static void tell_json(struct cli *cli, const struct evidence *evidence, const char *kind,
                      const struct clock_sample *samples, size_t count)
{
    json_t *object = json_object();
    json_add(&object, "kind", json_string(kind));
    json_add(&object, "id", json_stringn(evidence->clock.data, evidence->clock.size));
    json_add_bool(&object, "known", evidence->time_known);
    json_add_span(&object, "since_boot_ms", SPAN_US(evidence->now.us));
    if (evidence->time_known) {
        json_add_span(&object, "width_ms",
                      SPAN_US(evidence->latest.us - evidence->earliest.us));
        json_add_count(&object, "drift_ppm", CLOCK_DRIFT_PPM);
    }
    if (count > 0) {
        struct span least = SPAN_US(evidence->earliest.us - evidence->wall.us);
        struct span most = SPAN_US(evidence->latest.us - evidence->wall.us);
        json_add_time_ms(&object, "earliest_at", evidence->earliest.us / 1000);
        json_add_time_ms(&object, "latest_at", evidence->latest.us / 1000);
        json_add_span(&object, "offset_min_ms", least);
        json_add_span(&object, "offset_max_ms", most);
        json_add(&object, "samples", samples_as_json(samples, count, evidence));
    }
    output_json(&cli->out, object);
}

static void tell_date(struct cli *cli, const struct evidence *evidence,
                      const struct clock_sample *samples, size_t count)
{
    char earliest[TIME_TEXT_MAX], latest[TIME_TEXT_MAX];
    struct output *out = &cli->out;
    int64_t calendar = calendar_us(evidence);
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
