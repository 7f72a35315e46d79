/* SPDX-License-Identifier: Apache-2.0 */
/* store_probe.c: reports whether a store provides the guarantees that locks need, and the store's
 * time. */
#include "api/store.h"

#include "doc/clock.h"

#include <stdio.h>

/* ---- The probe ----------------------------------------------------------------------- */

static void report_findings(const struct probe_report *report,
                            const struct hf_store_probe_options *options)
{
    if (!options->each)
        return;
    for (size_t i = 0; i < report->count; i++) {
        const struct probe_finding *finding = &report->findings[i];
        const struct hf_store_finding shown = {
            .struct_size = sizeof shown,
            .what = finding->what,
            .finding = finding->verdict,
            .detail = finding->detail,
        };
        if (!options->each(options->argument, &shown))
            return;
    }
}

enum hf_status hf_store_probe(struct hf_store *store,
                              const struct hf_store_probe_options *options,
                              struct hf_store_probe_report *ret_report, struct hf_error *error)
{
    struct hf_store_probe_options used = HF_STORE_PROBE_OPTIONS;
    struct hf_store_probe_report filled = HF_STORE_PROBE_REPORT;
    struct probe_report report = { .count = 0 };
    struct hf_error why;
    if (ERROR_IF_NULL(&why, store) != HF_OK ||
        READ_OPTIONS(HF_STORE_PROBE_OPTIONS, options, &used, &why) != HF_OK ||
        CHECK_REPORT(HF_STORE_PROBE_REPORT, ret_report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    enum hf_status status = bucket_probe(store->store, !used.no_save, &report, &why);
    report_findings(&report, &used);
    filled.usable = status == HF_OK;
    filled.findings = (uint32_t)report.count;
    filled.requests = report.requests;
    filled.delete_conditional = report.traits.delete_conditional;
    filled.put_file_conditional = report.traits.put_file_conditional;
    filled.etag_fresh = report.traits.etag_fresh;
    filled.list_ordered = report.traits.list_ordered;
    write_caller_report(ret_report, &filled, sizeof filled);
    return error_tell(error, status, &why);
}

/* ---- The clock ----------------------------------------------------------------------- */

static_assert((int)HF_STORE_CLOCK_NONE == (int)STORE_CLOCK_NONE &&
                  (int)HF_STORE_CLOCK_BOOT == (int)STORE_CLOCK_BOOT &&
                  (int)HF_STORE_CLOCK_DATE == (int)STORE_CLOCK_DATE,
              "the kinds of clocks are the same, in the same order");
static_assert(HF_STORE_CLOCK_SAMPLES == CLOCK_SAMPLES &&
                  HF_STORE_CLOCK_ID_MAX == CLOCK_ID_MAX + 1,
              "a report has room for all that is known");

/* How many replies to request. */
#define ASKED 3

/* Reads an object that does not exist: a cheap request whose reply contains a date. */
static enum hf_status request_date(struct store *store, struct doc_clock *clock,
                                   struct hf_error *error)
{
    struct buffer body = BUFFER_INIT(1);
    struct get_call get = { .key = VIEW(".holdfast/clock"), .body = &body };
    enum hf_status status = store_get(store, &get);
    clock_learn(clock, &get.stamp);
    buffer_release(&body);
    if (status == HF_OK || status == HF_NOT_FOUND || status == HF_INVALID)
        return HF_OK;
    *error = get.error;
    return status;
}

/* Offsets are relative to the wall clock of this machine, which users can see, and not to the
 * boot-time clock. */
static void fill_clock_report(struct doc_clock *clock, struct hf_store_clock_report *report)
{
    struct clock_sample samples[CLOCK_SAMPLES];
    struct evidence evidence = { .nonce = VIEW("") };
    clock_evidence(clock, &evidence);
    size_t count = clock_samples(clock, samples);
    int64_t calendar = evidence.wall.us - evidence.now.us;
    report->kind = (enum hf_store_clock)clock->kind;
    snprintf(report->id, sizeof report->id, "%.*s", VIEW_ARGS(evidence.clock));
    report->known = evidence.time_known;
    report->since_boot_us = evidence.now.us;
    report->drift_ppm = CLOCK_DRIFT_PPM;
    report->sample_count = (uint32_t)count;
    if (evidence.time_known) {
        report->earliest_us = evidence.earliest.us;
        report->latest_us = evidence.latest.us;
    }
    if (count > 0) {
        report->offset_min_us = evidence.earliest.us - evidence.wall.us;
        report->offset_max_us = evidence.latest.us - evidence.wall.us;
    }
    for (size_t i = 0; i < count; i++)
        report->samples[i] = (struct hf_store_clock_sample){
            .age_us = mono_since(evidence.now, samples[i].taken).us,
            .offset_min_us = samples[i].offset_min_us - calendar,
            .offset_max_us = samples[i].offset_max_us - calendar,
        };
}

enum hf_status hf_store_clock(struct hf_store *store, struct hf_store_clock_report *ret_report,
                              struct hf_error *error)
{
    struct hf_store_clock_report report = HF_STORE_CLOCK_REPORT;
    struct doc_clock clock;
    struct hf_error why;
    if (ERROR_IF_NULL(&why, store, ret_report) != HF_OK ||
        CHECK_REPORT(HF_STORE_CLOCK_REPORT, ret_report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    enum hf_status status = HF_OK;
    clock_init(&clock, store->store);
    int asked = clock.kind == STORE_CLOCK_DATE ? ASKED : 0;
    for (int i = 0; i < asked; i++) {
        status = request_date(store->store, &clock, &why);
        if (status != HF_OK)
            break;
    }
    fill_clock_report(&clock, &report);
    if (status == HF_OK && clock.kind == STORE_CLOCK_DATE && report.sample_count == 0)
        status = error_set(&why, HF_UNSUPPORTED, "no reply from the store contained a date");
    clock_release(&clock);
    if (status == HF_OK)
        write_caller_report(ret_report, &report, sizeof report);
    return error_tell(error, status, &why);
}
