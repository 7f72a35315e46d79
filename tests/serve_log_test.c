/* SPDX-License-Identifier: Apache-2.0 */
/* serve_log_test.c: lines of the log and of the audit log, trace contexts (src/serve/log), and
 * rates (src/serve/guard/rate.h). What a whole server writes is in serve_operator_test.py. */
#include "serve/guard/rate.h"
#include "serve/log/log.h"
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Trace contexts ------------------------------------------------------------------ */

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

static void only_a_valid_trace_context_is_passed_on(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *passed; /* "": it is not */
    } cases[] = {
        { "00-" TRACE "-" PARENT "-01", "00-" TRACE "-" PARENT "-01" },
        { "00-" TRACE "-" PARENT "-00", "00-" TRACE "-" PARENT "-00" },
        { "cc-" TRACE "-" PARENT "-01", "cc-" TRACE "-" PARENT "-01" },
        { "cc-" TRACE "-" PARENT "-01-what-follows", "cc-" TRACE "-" PARENT "-01" },
        { "cc-" TRACE "-" PARENT "-01.what-follows", "" },
        { "00-" TRACE "-" PARENT "-01-what-follows", "" },
        { "ff-" TRACE "-" PARENT "-01", "" },
        { "00-00000000000000000000000000000000-" PARENT "-01", "" },
        { "00-" TRACE "-0000000000000000-01", "" },
        { "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01", "" },
        { "00-" TRACE "-" PARENT, "" },
        { "00-" TRACE "-" PARENT "-1", "" },
        { "00-" TRACE "x" PARENT "-01", "" },
        { "0-" TRACE "0-" PARENT "-01", "" },
        { "", "" },
        { "nonsense", "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct trace_context context;
        bool valid = trace_context_read(view_of(cases[i].text), &context);
        assert_int_equal(valid, cases[i].passed[0] != '\0');
        assert_true(view_equal(context.text, view_of(cases[i].passed)));
        if (valid)
            assert_true(view_equal(context.trace_id, VIEW(TRACE)) &&
                        view_equal(context.parent_id, VIEW(PARENT)));
    }
}

/* ---- Lines --------------------------------------------------------------------------- */

static struct log_entry an_entry(void)
{
    return (struct log_entry){ .at = { 1763415021123456 },
                               .took = SPAN_US(1234),
                               .method = "POST",
                               .route = "acquire",
                               .status = 200,
                               .ns = "default",
                               .who = "ci",
                               .peer = "127.0.0.1:1",
                               .trace = { VIEW(""), VIEW(TRACE), VIEW(PARENT) },
                               .scope = "named:deploy",
                               .owner = "me",
                               .token = 7 };
}

static void a_line_has_what_it_should_and_no_more(void **state)
{
    (void)state;
    struct log_entry entry = an_entry();
    struct buffer line = BUFFER_INIT(4096);
    log_entry_json(&entry, /* audits */ false, &line);
    assert_string_equal(buffer_text(&line),
                        "{\"at\":\"2025-11-17T21:30:21.123Z\",\"message\":\"request\","
                        "\"method\":\"POST\",\"route\":\"acquire\",\"status\":200,"
                        "\"result\":\"ok\",\"took_ms\":1.234,\"namespace\":\"default\","
                        "\"who\":\"ci\",\"peer\":\"127.0.0.1:1\",\"trace_id\":\"" TRACE
                        "\",\"parent_id\":\"" PARENT "\"}\n");
    buffer_clear(&line);
    entry.trace = (struct trace_context){ VIEW(""), VIEW(""), VIEW("") };
    log_entry_json(&entry, /* audits */ true, &line);
    assert_string_equal(buffer_text(&line),
                        "{\"at\":\"2025-11-17T21:30:21.123Z\",\"message\":\"audit\","
                        "\"method\":\"POST\",\"route\":\"acquire\",\"status\":200,"
                        "\"result\":\"ok\",\"took_ms\":1.234,\"namespace\":\"default\","
                        "\"scope\":\"named:deploy\",\"owner\":\"me\",\"fencing_token\":7,"
                        "\"who\":\"ci\",\"peer\":\"127.0.0.1:1\"}\n");
    buffer_clear(&line);
    entry.status = 0;
    log_entry_text(&entry, &line);
    assert_string_equal(buffer_text(&line),
                        "holdfast serve: POST acquire: hung_up, 1.234 ms namespace=\"default\" "
                        "who=\"ci\" peer=\"127.0.0.1:1\"\n");
    buffer_release(&line);
}

static void no_name_begins_a_line_of_its_own(void **state)
{
    (void)state;
    struct log_entry entry = an_entry();
    struct buffer line = BUFFER_INIT(4096);
    entry.ns = entry.owner = entry.scope = "a\",\"status\":500}\n{\"b\":\"\x01";
    for (int i = 0; i < 3; i++) {
        buffer_clear(&line);
        if (i == 2)
            log_entry_text(&entry, &line);
        else
            log_entry_json(&entry, /* audits */ i == 1, &line);
        assert_ptr_equal(strchr(buffer_text(&line), '\n'), line.data + line.size - 1);
        assert_null(strstr(line.data, "\"status\":500"));
        assert_null(strchr(line.data, 1));
    }
    buffer_release(&line);
}

/* ---- The log ------------------------------------------------------------------------- */

static void which_requests_are_logged_can_be_chosen(void **state)
{
    (void)state;
    static const bool wanted[][3] = { /* 200, 409, hung up */
                                      [LOG_NO_REQUESTS] = { false, false, false },
                                      [LOG_FAILED_REQUESTS] = { false, true, false },
                                      [LOG_ALL_REQUESTS] = { true, true, true }
    };
    for (int which = LOG_NO_REQUESTS; which <= LOG_ALL_REQUESTS; which++) {
        struct serve_log *log;
        struct hf_error error;
        assert_int_equal(serve_log_new(env_real(), STDERR_FILENO, false,
                                       (enum log_requests)which, &log, &error),
                         HF_OK);
        assert_int_equal(serve_log_wants(log, 200), wanted[which][0]);
        assert_int_equal(serve_log_wants(log, 409), wanted[which][1]);
        assert_int_equal(serve_log_wants(log, 0), wanted[which][2]);
        serve_log_free(log);
    }
}

/* Reads all that comes until the other end is closed: how many lines, and how many were dropped. */
static void count_lines(int fd, uint64_t *ret_lines, uint64_t *ret_dropped)
{
    struct buffer text = BUFFER_INIT(16 * 1024 * 1024);
    char bytes[4096];
    ssize_t size;
    *ret_lines = *ret_dropped = 0;
    while ((size = read(fd, bytes, sizeof bytes)) > 0)
        assert_true(buffer_append(&text, (struct view){ bytes, (size_t)size }));
    for (struct view rest = buffer_view(&text); rest.size > 0;) {
        struct view line = view_cut(&rest, '\n'), word = VIEW("\"count\":");
        const char *count = memmem(line.data, line.size, word.data, word.size);
        if (!count) {
            ++*ret_lines;
            continue;
        }
        uint64_t number = 0;
        for (count += word.size; *count >= '0' && *count <= '9'; count++)
            number = number * 10 + (uint64_t)(*count - '0');
        *ret_dropped += number;
    }
    buffer_release(&text);
}

static void a_log_that_nobody_reads_drops_lines_and_says_how_many(void **state)
{
    (void)state;
    enum { LINES = 5000 };
    int ends[2];
    struct serve_log *log;
    struct hf_error error;
    struct log_entry entry = an_entry();
    uint64_t lines, dropped;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(serve_log_new(env_real(), ends[1], /* json */ true, LOG_ALL_REQUESTS, &log,
                                   &error),
                     HF_OK);
    for (int i = 0; i < LINES; i++) /* returns, although the pipe is full */
        serve_log_request(log, &entry);
    serve_log_free(log); /* gives up after a while: the rest of its buffer is lost */
    close(ends[1]);
    count_lines(ends[0], &lines, &dropped);
    assert_true(lines > 100 && lines < LINES);
    close(ends[0]);
}

static void what_a_slow_reader_missed_is_told_to_it(void **state)
{
    (void)state;
    int ends[2];
    struct serve_log *log;
    struct hf_error error;
    struct log_entry entry = an_entry();
    uint64_t lines, dropped, sent = 0;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(serve_log_new(env_real(), ends[1], /* json */ true, LOG_ALL_REQUESTS, &log,
                                   &error),
                     HF_OK);
    for (; sent < 5000; sent++)
        serve_log_request(log, &entry);
    /* Makes room for all that the log has kept. */
    assert_int_equal(fcntl(ends[0], F_SETPIPE_SZ, 1024 * 1024) > 0, 1);
    serve_log_free(log);
    close(ends[1]);
    count_lines(ends[0], &lines, &dropped);
    assert_true(dropped > 0);
    assert_int_equal(lines + dropped, sent);
    close(ends[0]);
}

/* ---- The audit log ------------------------------------------------------------------- */

static size_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

static void the_audit_log_is_appended_to_and_opened_again(void **state)
{
    (void)state;
    char path[256], old[300], *folder = test_dir_make();
    struct audit *audit;
    struct hf_error error;
    struct log_entry entry = an_entry();
    struct stat st;
    snprintf(path, sizeof path, "%s/audit", folder);
    snprintf(old, sizeof old, "%s.1", path);
    assert_int_equal(audit_open(env_real(), path, &audit, &error), HF_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    audit_write(audit, &entry);
    size_t line = size_of(path);
    assert_true(line > 100);
    assert_int_equal(rename(path, old), 0);
    audit_write(audit, &entry);
    assert_int_equal(size_of(old), 2 * line);
    assert_int_equal(audit_reopen(audit, &error), HF_OK);
    audit_write(audit, &entry);
    assert_int_equal(size_of(old), 2 * line);
    assert_int_equal(size_of(path), line);
    struct mono_time end = mono_add(env_now(env_real()), SPAN_S(30));
    while (audit_synced(audit) < 3) {
        assert_true(mono_before(env_now(env_real()), end));
        env_sleep(env_real(), SPAN_MS(5));
    }
    assert_int_equal(audit_failures(audit), 0);
    audit_close(audit);
    assert_int_equal(audit_open(env_real(), path, &audit, &error), HF_OK);
    audit_write(audit, &entry);
    assert_int_equal(size_of(path), 2 * line);
    audit_close(audit);
    assert_int_not_equal(audit_open(env_real(), "/nowhere/audit", &audit, &error), HF_OK);
    test_dir_remove(folder);
}

static void a_line_that_cannot_be_written_is_counted(void **state)
{
    (void)state;
    struct audit *audit;
    struct hf_error error;
    struct log_entry entry = an_entry();
    assert_int_equal(audit_open(env_real(), "/dev/full", &audit, &error), HF_OK);
    audit_write(audit, &entry);
    audit_write(audit, &entry);
    assert_int_equal(audit_failures(audit), 2);
    audit_close(audit);
}

static const char *many_bytes(char *text, size_t size)
{
    memset(text, 1, size); /* each of which is six in JSON */
    text[size] = '\0';
    return text;
}

static void no_names_are_too_long_for_the_audit_log(void **state)
{
    (void)state;
    char path[256], *folder = test_dir_make();
    char text[LOG_TEXT_MAX + 1], who[LOG_WHO_MAX + 1], peer[LOG_PEER_MAX + 1];
    struct audit *audit;
    struct hf_error error;
    struct log_entry entry = an_entry();
    size_t bytes = 4 * LOG_TEXT_MAX + LOG_WHO_MAX + LOG_PEER_MAX;
    entry.ns = entry.scope = entry.owner = entry.reason = many_bytes(text, LOG_TEXT_MAX);
    entry.who = many_bytes(who, LOG_WHO_MAX);
    entry.peer = many_bytes(peer, LOG_PEER_MAX);
    entry.token = UINT64_MAX;
    snprintf(path, sizeof path, "%s/audit", folder);
    assert_int_equal(audit_open(env_real(), path, &audit, &error), HF_OK);
    audit_write(audit, &entry);
    assert_true(size_of(path) > 6 * bytes);
    assert_int_equal(audit_failures(audit), 0);
    audit_close(audit);
    test_dir_remove(folder);
}

/* ---- Rates --------------------------------------------------------------------------- */

static void rates_are_read_strictly(void **state)
{
    (void)state;
    static const char *const wrong[] = { "",    "0",    "-1",     "1.5",     "10:",
                                         ":10", "10:0", "10:5:5", "1000001", "ten" };
    struct rate_limit limit;
    struct hf_error error;
    assert_int_equal(rate_limit_read(VIEW("100"), &limit, &error), HF_OK);
    assert_true(limit.per_s == 100 && limit.burst == 100);
    assert_int_equal(rate_limit_read(VIEW("1:1000000"), &limit, &error), HF_OK);
    assert_true(limit.per_s == 1 && limit.burst == 1000000);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(rate_limit_read(view_of(wrong[i]), &limit, &error), HF_INVALID);
}

static void a_client_gets_its_burst_and_then_its_rate(void **state)
{
    (void)state;
    struct rate_table *table = rate_table_new(&(struct rate_limit){ .per_s = 10, .burst = 3 });
    struct mono_time now = { 1000000 };
    for (int i = 0; i < 3; i++)
        assert_int_equal(rate_take(table, VIEW("a"), RATE_OTHERS, now).us, 0);
    assert_int_equal(rate_take(table, VIEW("a"), RATE_OTHERS, now).us, 100000);
    assert_int_equal(rate_take(table, VIEW("a"), RATE_HOLDERS, now).us, 0); /* its own */
    assert_int_equal(rate_take(table, VIEW("b"), RATE_OTHERS, now).us, 0);
    now.us += 99999;
    assert_int_equal(rate_take(table, VIEW("a"), RATE_OTHERS, now).us, 1);
    now.us += 1;
    assert_int_equal(rate_take(table, VIEW("a"), RATE_OTHERS, now).us, 0);
    assert_int_equal(rate_take(table, VIEW("a"), RATE_OTHERS, now).us, 100000);
    now.us += INT64_C(1000000) * 86400 * 365 * 100; /* and never more than its burst */
    for (int i = 0; i < 3; i++)
        assert_int_equal(rate_take(table, VIEW("a"), RATE_OTHERS, now).us, 0);
    assert_true(rate_take(table, VIEW("a"), RATE_OTHERS, now).us > 0);
    now.us -= 5000000; /* a clock that goes back gives nothing away */
    assert_true(rate_take(table, VIEW("a"), RATE_OTHERS, now).us > 0);
    rate_table_free(table);
}

static void many_clients_never_make_the_rate_of_another_one_smaller(void **state)
{
    (void)state;
    struct rate_table *table = rate_table_new(&(struct rate_limit){ .per_s = 1, .burst = 2 });
    struct mono_time now = { 1 };
    char name[32];
    for (int i = 0; i < 100000; i++) {
        now.us++;
        snprintf(name, sizeof name, "client-%d", i);
        assert_int_equal(rate_take(table, view_of(name), RATE_OTHERS, now).us, 0);
        assert_int_equal(rate_take(table, view_of(name), RATE_OTHERS, now).us, 0);
        assert_true(rate_take(table, view_of(name), RATE_OTHERS, now).us > 0);
    }
    rate_table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_valid_trace_context_is_passed_on),
        cmocka_unit_test(a_line_has_what_it_should_and_no_more),
        cmocka_unit_test(no_name_begins_a_line_of_its_own),
        cmocka_unit_test(which_requests_are_logged_can_be_chosen),
        cmocka_unit_test(a_log_that_nobody_reads_drops_lines_and_says_how_many),
        cmocka_unit_test(what_a_slow_reader_missed_is_told_to_it),
        cmocka_unit_test(the_audit_log_is_appended_to_and_opened_again),
        cmocka_unit_test(a_line_that_cannot_be_written_is_counted),
        cmocka_unit_test(no_names_are_too_long_for_the_audit_log),
        cmocka_unit_test(rates_are_read_strictly),
        cmocka_unit_test(a_client_gets_its_burst_and_then_its_rate),
        cmocka_unit_test(many_clients_never_make_the_rate_of_another_one_smaller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
