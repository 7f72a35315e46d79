/* SPDX-License-Identifier: Apache-2.0 */
/* serve_metrics_test.c: the counters of the server (src/serve/metrics) and the page that shows
 * them. Whether scrapers can read the page is in serve_operator_test.py. */
#include "alloc.h"
#include "serve/metrics/metrics.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct metrics_now nothing_now(void)
{
    return (struct metrics_now){ .stats = HF_STATS };
}

static const char *page_of(struct metrics *metrics, bool open, struct buffer *page)
{
    struct metrics_now now = nothing_now();
    buffer_clear(page);
    metrics_write(metrics, &now, open, page);
    assert_false(page->failed);
    return buffer_text(page);
}

static void assert_line(const char *page, const char *line)
{
    char text[256];
    snprintf(text, sizeof text, "\n%s\n", line);
    if (!strstr(page, text))
        fail_msg("the page has no line '%s'", line);
}

static void requests_are_counted_by_route_and_status(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new(env_real());
    struct buffer page = BUFFER_INIT(1024 * 1024);
    unsigned locks = metrics_add_route(metrics, "/v1/locks/break");
    assert_int_equal(metrics_add_route(metrics, "/v1/locks/break"), locks);
    metrics_request(metrics, locks, 200, SPAN_US(250));
    metrics_request(metrics, locks, 200, SPAN_MS(2));
    metrics_request(metrics, locks, 409, SPAN_S(3600));
    metrics_request(metrics, locks, 299, SPAN_MS(1));
    metrics_request(metrics, 0, METRICS_HUNG_UP, SPAN_MS(1));
    const char *text = page_of(metrics, /* open */ false, &page);
    assert_line(text, "holdfast_http_requests_total{route=\"locks_break\",code=\"200\"} 2");
    assert_line(text, "holdfast_http_requests_total{route=\"locks_break\",code=\"409\"} 1");
    assert_line(text, "holdfast_http_requests_total{route=\"locks_break\",code=\"other\"} 1");
    assert_line(text, "holdfast_http_requests_total{route=\"none\",code=\"hung_up\"} 1");
#define TOOK "holdfast_http_request_duration_seconds"
    assert_line(text, TOOK "_bucket{route=\"locks_break\",result=\"ok\",le=\"0.00025\"} 1");
    assert_line(text, TOOK "_bucket{route=\"locks_break\",result=\"ok\",le=\"0.0025\"} 3");
    assert_line(text, TOOK "_bucket{route=\"locks_break\",result=\"refused\",le=\"600\"} 0");
    assert_line(text, TOOK "_bucket{route=\"locks_break\",result=\"refused\",le=\"+Inf\"} 1");
    assert_line(text, TOOK "_sum{route=\"locks_break\",result=\"ok\"} 0.003250");
    assert_line(text, TOOK "_count{route=\"none\",result=\"hung_up\"} 1");
#undef TOOK
    buffer_release(&page);
    metrics_free(metrics);
}

static void more_routes_than_there_is_room_for_are_counted_together(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new(env_real());
    char path[32];
    for (int i = 1; i < METRICS_ROUTES_MAX; i++) {
        snprintf(path, sizeof path, "/v1/route%d", i);
        assert_int_equal(metrics_add_route(metrics, path), i);
    }
    assert_int_equal(metrics_add_route(metrics, "/v1/last"), 0);
    metrics_free(metrics);
}

static void what_clients_send_never_becomes_a_label(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new(env_real());
    struct buffer page = BUFFER_INIT(1024 * 1024);
    struct hf_store_request request = { .struct_size = sizeof request,
                                        .call = HF_STORE_CALL_PUT,
                                        .key = "locks/secret-key",
                                        .status = HF_CONFLICT,
                                        .why = "secret-reason",
                                        .sent_bytes = 10,
                                        .took_us = 1500 };
    metrics_store_request(metrics, &request);
    request.call = HF_STORE_CALL_COUNT; /* of a newer library */
    metrics_store_request(metrics, &request);
    const char *text = page_of(metrics, /* open */ false, &page);
    assert_line(text, "holdfast_store_requests_total{call=\"put\",result=\"conflict\"} 1");
    assert_line(text,
                "holdfast_store_request_duration_seconds_bucket{call=\"put\",le=\"0.001\"} 0");
    assert_line(text, "holdfast_store_sent_bytes_total 10");
    assert_null(strstr(text, "secret"));
    metrics_add_route(metrics, "/v1/\"}\nevil");
    metrics_request(metrics, 1, 200, SPAN_US(1));
    assert_line(page_of(metrics, false, &page),
                "holdfast_http_requests_total{route=\"___evil\",code=\"200\"} 1");
    buffer_release(&page);
    metrics_free(metrics);
}

static void sweeps_are_added_up(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new(env_real());
    struct buffer page = BUFFER_INIT(1024 * 1024);
    struct hf_sweep_report run = HF_SWEEP_REPORT;
    run.leases_cleared = 3;
    run.markers_deleted = 2;
    run.entries_deleted = 5;
    run.duration_ms = 1500;
    metrics_sweep(metrics, &run);
    run.stop = HF_SWEEP_STOP_ACTIVITY;
    metrics_sweep(metrics, &run);
    const char *text = page_of(metrics, /* open */ false, &page);
    assert_line(text, "holdfast_sweep_runs_total{result=\"done\"} 1");
    assert_line(text, "holdfast_sweep_aborts_total 1");
    assert_line(text, "holdfast_sweep_leases_cleared_total 6");
    assert_line(text, "holdfast_sweep_decision_markers_deleted_total 4");
    assert_line(text, "holdfast_sweep_index_entries_deleted_total 10");
    assert_line(text, "holdfast_sweep_duration_seconds_sum 3.000000");
    assert_line(text, "holdfast_sweep_duration_seconds_count 2");
    buffer_release(&page);
    metrics_free(metrics);
}

static void scrubs_are_added_up(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new(env_real());
    struct buffer page = BUFFER_INIT(1024 * 1024);
    struct hf_store_scrub_report slice = HF_STORE_SCRUB_REPORT;
    slice.objects = 7;
    slice.bytes_read = 4096;
    slice.damaged = slice.missing = 1;
    metrics_scrub(metrics, &slice, /* succeeded */ true);
    slice.complete = true; /* also if its position could not be noted */
    metrics_scrub(metrics, &slice, /* succeeded */ false);
    const char *text = page_of(metrics, /* open */ false, &page);
    assert_line(text, "holdfast_scrub_runs_total 2");
    assert_line(text, "holdfast_scrub_rounds_total 1");
    assert_line(text, "holdfast_scrub_failures_total 1");
    assert_line(text, "holdfast_scrub_objects_total 14");
    assert_line(text, "holdfast_scrub_bytes_total 8192");
    assert_line(text, "holdfast_scrub_findings_total 4");
    buffer_release(&page);
    metrics_free(metrics);
}

static void figures_that_are_not_known_are_not_shown(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new(env_real());
    struct buffer page = BUFFER_INIT(1024 * 1024);
    struct metrics_backlog backlog = { .chunks = 7, .lag_ms = -1 };
    struct hf_store_clock_report clock = HF_STORE_CLOCK_REPORT;
    const char *text = page_of(metrics, /* open */ false, &page);
    assert_null(strstr(text, "holdfast_compaction"));
    assert_null(strstr(text, "holdfast_clock"));
    clock.known = true;
    clock.earliest_us = 1000;
    clock.latest_us = 251000;
    clock.offset_min_us = -125000;
    metrics_set_clock(metrics, &clock);
    metrics_set_backlog(metrics, &backlog);
    text = page_of(metrics, false, &page);
    assert_line(text, "holdfast_clock_interval_seconds 0.250000");
    assert_line(text, "holdfast_clock_offset_min_seconds -0.125000");
    assert_line(text, "holdfast_compaction_backlog_chunks 7");
    assert_null(strstr(text, "holdfast_index_lag"));
    backlog.lag_ms = 2500;
    metrics_set_backlog(metrics, &backlog);
    assert_line(page_of(metrics, false, &page), "holdfast_index_lag_seconds 2.500000");
    buffer_release(&page);
    metrics_free(metrics);
}

static void openmetrics_names_counters_without_total_and_has_an_end(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new(env_real());
    struct buffer page = BUFFER_INIT(1024 * 1024);
    const char *text = page_of(metrics, /* open */ true, &page);
    assert_line(text, "# TYPE holdfast_leases_granted counter");
    assert_line(text, "holdfast_leases_granted_total 0");
    assert_string_equal(text + strlen(text) - 6, "# EOF\n");
    assert_line(page_of(metrics, false, &page), "# TYPE holdfast_leases_granted_total counter");
    buffer_release(&page);
    metrics_free(metrics);
}

static void the_accept_header_decides_the_format(void **state)
{
    (void)state;
    assert_false(metrics_wants_open(VIEW("")));
    assert_false(metrics_wants_open(VIEW("*/*")));
    assert_false(metrics_wants_open(VIEW("text/plain;version=0.0.4")));
    assert_false(metrics_wants_open(VIEW("text/plain, application/openmetrics-text")));
    assert_true(metrics_wants_open(VIEW("application/openmetrics-text;version=1.0.0,"
                                        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")));
    assert_true(metrics_wants_open(VIEW("text/html, application/openmetrics-text")));
}

static void quantiles_are_interpolated_within_their_bucket(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new(env_real());
    struct metrics_now now = nothing_now();
    struct buffer json = BUFFER_INIT(1024 * 1024);
    unsigned route = metrics_add_route(metrics, "/v1/get");
    for (int i = 0; i < 90; i++)
        metrics_request(metrics, route, 200, SPAN_US(700)); /* from 500 to 1000 */
    for (int i = 0; i < 10; i++)
        metrics_request(metrics, route, 200, SPAN_S(3600)); /* beyond all bounds */
    metrics_write_json(metrics, &now, &json);
    const char *text = buffer_text(&json);
    assert_non_null(strstr(text, "\"count\":100,"));
    assert_non_null(strstr(text, "\"p50_ms\":0.777,\"p90_ms\":1.000,\"p99_ms\":600000.000,"));
    assert_non_null(strstr(text, "\"buckets\":[0,0,90,0,0,0,0,0,0,0,0,0,0,0,0,10]"));
    assert_null(strstr(text, "\"clock\"")); /* not known yet */
    assert_null(strstr(text, "\"backlog\""));
    buffer_release(&json);
    metrics_free(metrics);
}

static void without_memory_nothing_is_lost(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        alloc_fail_after(n);
        struct metrics *metrics = metrics_new(env_real());
        if (!alloc_stop()) {
            metrics_free(metrics);
            break;
        }
        assert_null(metrics);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_counted_by_route_and_status),
        cmocka_unit_test(more_routes_than_there_is_room_for_are_counted_together),
        cmocka_unit_test(what_clients_send_never_becomes_a_label),
        cmocka_unit_test(sweeps_are_added_up),
        cmocka_unit_test(scrubs_are_added_up),
        cmocka_unit_test(figures_that_are_not_known_are_not_shown),
        cmocka_unit_test(openmetrics_names_counters_without_total_and_has_an_end),
        cmocka_unit_test(the_accept_header_decides_the_format),
        cmocka_unit_test(quantiles_are_interpolated_within_their_bucket),
        cmocka_unit_test(without_memory_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
