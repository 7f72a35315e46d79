/* SPDX-License-Identifier: Apache-2.0 */
/* listen_test.c: a store hears of writes by other processes and wakes its listeners. A lost
 * wake-up shows as a wait that ends only at its deadline, which is far away. */
#include "fault_store.h"
#include "store/observe.h"
#include "store/store.h"
#include "test.h"
#include "write_notify_kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HAND_OVERS  2000
#define TASKS       8
#define TASK_ROUNDS 200

/* ---- Stores that live in files ------------------------------------------------------- */

struct kind {
    const char *url;
    const char *notify;
};

static const struct kind kinds[] = {
    { "sqlite:%s/s.db", "s.db-bell" },
    { "dir:%s", "%bell" },
};

#define EACH_KIND(kind) \
    for (const struct kind *kind = kinds; kind < kinds + sizeof kinds / sizeof kinds[0]; kind++)

static struct store *open_url(const char *url)
{
    struct store *store = NULL;
    struct hf_error error;
    assert_status(HF_OK, store_open(env_real(), view_of(url), &store, &error), &error);
    return store;
}

static const char *url_of(const struct kind *kind)
{
    static char url[4200];
    char format[64];
    snprintf(format, sizeof format, "%s", kind->url);
    char *mark = strstr(format, "%s");
    *mark = '\0';
    snprintf(url, sizeof url, "%s%s%s", format, folder, mark + 2);
    return url;
}

static struct store *open_kind(const struct kind *kind)
{
    return open_url(url_of(kind));
}

static bool put_text(struct store *store, const char *key, const char *text)
{
    struct put_call put = { .key = view_of(key), .body = view_of(text) };
    return store_put(store, &put) == HF_OK;
}

/* The number that an object holds; 0 where there is none. */
static unsigned long number_of(struct store *store, const char *key)
{
    struct buffer body = BUFFER_INIT(KIB);
    struct get_call get = { .key = view_of(key), .body = &body };
    unsigned long number = 0;
    if (store_get(store, &get) == HF_OK && buffer_append(&body, VIEW("\0")))
        number = strtoul(body.data, NULL, 10);
    buffer_release(&body);
    return number;
}

static bool put_number(struct store *store, const char *key, unsigned long number)
{
    char text[32];
    snprintf(text, sizeof text, "%lu", number);
    return put_text(store, key, text);
}

static bool has_news(struct store *store, uint64_t *ticket)
{
    return store_listen(store, ticket, write_notify_now());
}

/* Takes in what has been heard so far. */
static uint64_t fresh_ticket(struct store *store)
{
    uint64_t ticket = 0;
    for (int i = 0; i < 100 && has_news(store, &ticket); i++)
        ;
    assert_false(has_news(store, &ticket));
    return ticket;
}

static bool wait_for_number(struct store *store, uint64_t *ticket, const char *key,
                            unsigned long wanted)
{
    while (number_of(store, key) < wanted)
        if (!store_listen(store, ticket, far()))
            return false;
    return true;
}

/* ---- Another process ----------------------------------------------------------------- */

struct other {
    pid_t pid;
    int to;
    int from;
};

/* Puts the next number under "key" for each byte that comes, and says when that was done. */
static void serve_puts(const char *url, int in, int out)
{
    struct store *store = NULL;
    struct hf_error error;
    if (store_open(env_real(), view_of(url), &store, &error) != HF_OK)
        _exit(1);
    char byte;
    for (unsigned long number = 1; read(in, &byte, 1) == 1; number++) {
        bool done = put_number(store, "key", number);
        struct mono_time moment = write_notify_now();
        if (!done || write(out, &moment, sizeof moment) != sizeof moment)
            _exit(2);
    }
    store_close(store);
    _exit(0);
}

static struct other other_start(const char *url)
{
    int to[2];
    int from[2];
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    struct other other = { .pid = start_child(), .to = to[1], .from = from[0] };
    if (other.pid == 0) {
        close(to[1]);
        close(from[0]);
        serve_puts(url, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    return other;
}

static void other_begin_put(const struct other *other)
{
    assert_int_equal(write(other->to, "p", 1), 1);
}

static struct mono_time other_end_put(const struct other *other)
{
    struct mono_time moment = { 0 };
    assert_int_equal(read(other->from, &moment, sizeof moment), sizeof moment);
    return moment;
}

static void other_put(const struct other *other)
{
    other_begin_put(other);
    other_end_put(other);
}

static void other_stop(const struct other *other)
{
    close(other->to);
    close(other->from);
    assert_int_equal(status_of(other->pid), 0);
}

/* ---- One listener -------------------------------------------------------------------- */

static void woken_by_another_process(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        start();
        struct other other = other_start(url_of(kind));
        other_put(&other);
        struct store *store = open_kind(kind);
        assert_true(store_listens(store));
        uint64_t ticket = fresh_ticket(store);
        struct span worst = { 0 };
        for (unsigned long number = 2; number <= 20; number++) {
            other_begin_put(&other);
            while (number_of(store, "key") < number)
                assert_true(store_listen(store, &ticket, (struct mono_time){ MOMENT_FAR }));
            struct mono_time seen = write_notify_now();
            struct span late = mono_since(seen, other_end_put(&other));
            worst = late.us > worst.us ? late : worst;
        }
        printf("# %s: seen at most %lld us after the put had returned\n", kind->notify,
               (long long)worst.us);
        assert_true(worst.us < SPAN_S(2).us);
        store_close(store);
        other_stop(&other);
        finish();
    }
}

static void own_writes_and_each_write(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        start();
        struct store *store = open_kind(kind);
        uint64_t ticket = fresh_ticket(store);
        assert_true(put_text(store, "a", "1"));
        assert_true(has_news(store, &ticket));
        assert_false(has_news(store, &ticket));
        struct put_call puts[2] = { { .key = VIEW("a"), .body = VIEW("2") },
                                    { .key = VIEW("a/b"), .body = VIEW("3") } };
        assert_int_equal(store_put_many(store, puts, 2), HF_OK);
        assert_true(has_news(store, &ticket));
        ticket = fresh_ticket(store);
        struct delete_call gone = { .key = VIEW("a") };
        assert_int_equal(store_delete(store, &gone), HF_OK);
        assert_true(has_news(store, &ticket));
        store_close(store);
        finish();
    }
}

static void a_streamed_put_is_heard(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        start();
        struct store *store = open_kind(kind);
        int fd = open(in_folder("source"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, 300000), 0);
        uint64_t ticket = fresh_ticket(store);
        struct put_call put = { .key = VIEW("large") };
        assert_status(HF_OK, store_put_file(store, &put, fd, NULL), &put.error);
        assert_true(has_news(store, &ticket));
        close(fd);
        store_close(store);
        finish();
    }
}

static void what_changes_nothing_is_not_heard(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        start();
        struct store *store = open_kind(kind);
        assert_true(put_text(store, "a", "1"));
        uint64_t ticket = fresh_ticket(store);
        struct put_call refused = { .key = VIEW("a"), .condition = if_absent() };
        assert_int_equal(store_put(store, &refused), HF_CONFLICT);
        struct delete_call nothing = { .key = VIEW("b") };
        assert_int_equal(store_delete(store, &nothing), HF_OK);
        assert_int_equal(number_of(store, "a"), 1);
        struct list_call list = { .max = 10 };
        assert_int_equal(store_list(store, &list), HF_OK);
        assert_int_equal(list.count, 1);
        list_release(&list);
        store_close(open_kind(kind));
        assert_false(has_news(store, &ticket));
        store_close(store);
        finish();
    }
}

static void a_deadline_is_kept(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        start();
        struct store *store = open_kind(kind);
        uint64_t ticket = fresh_ticket(store);
        uint64_t before = ticket;
        struct mono_time until = after_ms(30);
        assert_false(store_listen(store, &ticket, until));
        assert_false(mono_before(write_notify_now(), until));
        assert_true(mono_before(write_notify_now(), mono_add(until, SPAN_S(5))));
        assert_int_equal(ticket, before);
        assert_false(store_listen(store, &ticket, (struct mono_time){ 0 }));
        store_close(store);
        finish();
    }
}

static void only_a_listener_makes_the_notify(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        start();
        struct store *store = open_kind(kind);
        assert_true(put_text(store, "a", "1"));
        assert_true(store_listens(store));
        assert_int_not_equal(access(in_folder(kind->notify), F_OK), 0);
        assert_int_equal(inotify_instances(), 0);
        fresh_ticket(store);
        assert_int_equal(access(in_folder(kind->notify), F_OK), 0);
        assert_int_equal(inotify_instances(), 1);
        store_close(store);
        assert_int_equal(inotify_instances(), 0);
        finish();
    }
}

/* ---- Between two processes ----------------------------------------------------------- */

/* Waits for each number under one key and answers with it under the other. */
static void echo(const char *url)
{
    struct store *store = NULL;
    struct hf_error error;
    uint64_t ticket = 0;
    if (store_open(env_real(), view_of(url), &store, &error) != HF_OK)
        _exit(1);
    for (unsigned long number = 1; number <= HAND_OVERS / 2; number++)
        if (!wait_for_number(store, &ticket, "ping", number) ||
            !put_number(store, "pong", number))
            _exit(2);
    store_close(store);
    _exit(0);
}

static void hand_over(const char *scheme, const char *rest)
{
    char url[4200];
    start();
    snprintf(url, sizeof url, "%s%s%s", scheme, folder, rest);
    pid_t child = start_child();
    if (child == 0)
        echo(url);
    struct store *store = open_url(url);
    uint64_t ticket = 0;
    struct mono_time before = write_notify_now();
    for (unsigned long number = 1; number <= HAND_OVERS / 2; number++) {
        assert_true(put_number(store, "ping", number));
        assert_true(wait_for_number(store, &ticket, "pong", number));
    }
    double took_s = (double)mono_since(write_notify_now(), before).us / 1e6;
    printf("# %sFOLDER%s: %.0f hand-overs/s\n", scheme, rest, HAND_OVERS / took_s);
    assert_int_equal(status_of(child), 0);
    store_close(store);
    finish();
}

static void nothing_is_lost_between_two_processes(void **state)
{
    (void)state;
    hand_over("sqlite:", "/s.db");
    hand_over("sqlite:", "/s.db?sync=off");
    hand_over("dir:", "?sync=off");
}

/* ---- Several tasks ------------------------------------------------------------------- */

struct waiter {
    struct store *store;
    unsigned number;
    unsigned lost;
    struct env_task *task;
};

/* Half of them leave and come back all the time, so that others have to take over. */
static void wait_for_all(void *argument)
{
    struct waiter *waiter = argument;
    uint64_t ticket = 0;
    while (number_of(waiter->store, "key") < TASK_ROUNDS) {
        bool short_stay = waiter->number % 2 == 0;
        struct mono_time until =
            short_stay ? mono_add(write_notify_now(), SPAN_US(100 * waiter->number)) : far();
        if (!store_listen(waiter->store, &ticket, until) && !short_stay)
            waiter->lost++;
    }
}

static void several_tasks_hear(struct store *store, const struct other *other)
{
    struct waiter waiters[TASKS];
    struct hf_error error;
    for (unsigned i = 0; i < TASKS; i++) {
        waiters[i] = (struct waiter){ .store = store, .number = i };
        assert_status(HF_OK,
                      env_task_start(env_real(), wait_for_all, &waiters[i], &waiters[i].task,
                                     &error),
                      &error);
    }
    for (unsigned i = 0; i < TASK_ROUNDS; i++)
        other_put(other);
    for (unsigned i = 0; i < TASKS; i++) {
        env_task_join(env_real(), waiters[i].task);
        assert_int_equal(waiters[i].lost, 0);
    }
    assert_int_equal(inotify_instances(), 1);
}

static void several_tasks_listen(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        start();
        struct other other = other_start(url_of(kind));
        struct store *store = open_kind(kind);
        several_tasks_hear(store, &other);
        store_close(store);
        other_stop(&other);
        finish();
    }
}

static void removed_under_a_store(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        start();
        struct other other = other_start(url_of(kind));
        struct store *store = open_kind(kind);
        uint64_t ticket = fresh_ticket(store);
        other_put(&other);
        assert_true(wait_for_number(store, &ticket, "key", 1));
        assert_int_equal(unlink(in_folder(kind->notify)), 0);
        assert_true(store_listen(store, &ticket, far()));
        ticket = fresh_ticket(store);
        other_put(&other);
        assert_true(wait_for_number(store, &ticket, "key", 2));
        store_close(store);
        other_stop(&other);
        finish();
    }
}

static void deaf_without_an_instance(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        start();
        struct store *store = open_kind(kind);
        uint64_t ticket = 0;
        struct rlimit old = use_up_descriptors();
        assert_true(store_listens(store));
        assert_true(has_news(store, &ticket));
        assert_false(store_listens(store));
        struct mono_time until = after_ms(5);
        assert_false(store_listen(store, &ticket, until));
        assert_false(mono_before(write_notify_now(), until));
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        assert_true(has_news(store, &ticket));
        assert_true(store_listens(store));
        assert_true(put_text(store, "a", "1"));
        assert_true(has_news(store, &ticket));
        store_close(store);
        finish();
    }
}

/* ---- Where there is no notify file ---------------------------------------------------------- */

/* In a child: opens as somebody who may only read. */
static int read_only(const char *url)
{
    struct store *store = NULL;
    struct hf_error error;
    uint64_t ticket = 0;
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 1;
    if (store_open(env_real(), view_of(url), &store, &error) != HF_OK)
        return 2;
    if (store_listens(store) || !store_listen(store, &ticket, write_notify_now()) ||
        store_listen(store, &ticket, after_ms(2)))
        return 3;
    if (number_of(store, "a") != 7 || put_text(store, "a", "8"))
        return 4;
    store_close(store);
    return 0;
}

static void who_may_only_read_does_not_listen(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    EACH_KIND(kind)
    {
        start();
        assert_int_equal(chmod(folder, 0755), 0);
        struct store *store = open_kind(kind);
        assert_true(put_text(store, "a", "7"));
        pid_t child = start_child();
        if (child == 0)
            _exit(read_only(url_of(kind)));
        assert_int_equal(status_of(child), 0);
        assert_int_not_equal(access(in_folder(kind->notify), F_OK), 0);
        store_close(store);
        finish();
    }
}

static void a_store_that_cannot_tell(void **state)
{
    (void)state;
    /* No scripted store: this is about a back end that has no such calls at all. */
    static const struct store_ops ops = { .name = "deaf" };
    struct store deaf = { .ops = &ops, .env = env_real() };
    uint64_t ticket = 0;
    assert_false(store_listens(&deaf));
    assert_true(has_news(&deaf, &ticket));
    struct mono_time until = after_ms(2);
    assert_false(store_listen(&deaf, &ticket, until));
    assert_false(mono_before(write_notify_now(), until));
}

/* ---- Memory, wrappers, forks --------------------------------------------------------- */

static void count_call(void *argument, const struct observation *seen)
{
    (void)seen;
    ++*(size_t *)argument;
}

static void put_soon(void *argument)
{
    put_text(argument, "a", "1");
}

static void memory_and_wrappers(void **state)
{
    (void)state;
    size_t calls = 0;
    struct observer observer = { .saw = count_call, .argument = &calls };
    struct fault_plan plan = { .seed = 1 };
    struct store *observed, *faulty;
    struct hf_error error;
    struct store *mem = open_url("mem:");
    assert_status(HF_OK, store_observe(mem, observer, &observed, &error), &error);
    assert_status(HF_OK, store_fault(observed, &plan, &faulty, &error), &error);
    assert_true(store_listens(faulty));
    uint64_t ticket = fresh_ticket(faulty);
    assert_int_equal(calls, 0);
    struct env_task *task;
    assert_status(HF_OK, env_task_start(env_real(), put_soon, mem, &task, &error), &error);
    assert_true(store_listen(faulty, &ticket, far()));
    env_task_join(env_real(), task);
    assert_false(has_news(faulty, &ticket));
    struct put_call refused = { .key = VIEW("a"), .condition = if_absent() };
    assert_int_equal(store_put(mem, &refused), HF_CONFLICT);
    struct delete_call gone = { .key = VIEW("b") };
    assert_int_equal(store_delete(mem, &gone), HF_OK);
    assert_false(has_news(faulty, &ticket));
    gone.key = VIEW("a");
    assert_int_equal(store_delete(mem, &gone), HF_OK);
    assert_true(has_news(faulty, &ticket));
    store_close(faulty);
}

static void a_forked_child_is_not_listening(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        start();
        struct store *store = open_kind(kind);
        uint64_t ticket = fresh_ticket(store);
        assert_true(put_text(store, "key", "1"));
        pid_t child = start_child();
        if (child == 0) {
            bool told = !store_listens(store) && store_listen(store, &ticket, far()) &&
                        !put_text(store, "key", "2");
            store_close(store);
            _exit(told ? 0 : 1);
        }
        assert_int_equal(status_of(child), 0);
        assert_true(has_news(store, &ticket));
        store_close(store);
        finish();
    }
}

static void no_store_is_named_like_a_notify(void **state)
{
    (void)state;
    start();
    char url[4200];
    struct store *store;
    struct hf_error error;
    snprintf(url, sizeof url, "sqlite:%s/s.db-bell", folder);
    assert_int_equal(store_open(env_real(), view_of(url), &store, &error), HF_INVALID);
    assert_non_null(strstr(error.why, "-bell"));
    finish();
}

static uint64_t changes_of_others(struct store *store)
{
    uint64_t mark = 0;
    assert_true(store_peer_changes(store, &mark));
    return mark;
}

static void changes_of_others_are_told(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        start();
        struct store *store = open_kind(kind);
        struct other other = other_start(url_of(kind));
        other_put(&other); /* it has opened the store, which may write to it */
        uint64_t mark = changes_of_others(store);
        for (unsigned long i = 1; i <= 5; i++) {
            assert_true(put_number(store, "own", i));
            struct delete_call gone = { .key = VIEW("own") };
            assert_int_equal(store_delete(store, &gone), HF_OK);
            number_of(store, "key");
            assert_true(changes_of_others(store) == mark);
            other_put(&other);
            assert_true(put_number(store, "own", i)); /* which does not hide it */
            assert_true(changes_of_others(store) != mark);
            mark = changes_of_others(store);
        }
        other_stop(&other);
        store_close(store);
        finish();
    }
    uint64_t none;
    struct store *memory = open_url("mem:");
    assert_false(store_peer_changes(memory, &none));
    store_close(memory);
}

/* Of a hundred that come one after the other some use what one of the former has used. */
static void the_first_write_of_our_own_is_not_one_of_others(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        start();
        for (unsigned long i = 1; i <= 100; i++) {
            struct store *store = open_kind(kind);
            uint64_t mark = changes_of_others(store);
            assert_true(put_number(store, "own", i));
            assert_true(changes_of_others(store) == mark);
            store_close(store);
        }
        finish();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a put of another process wakes a listener", woken_by_another_process),
        IT("a process hears its own puts and deletes, each of them", own_writes_and_each_write),
        IT("a streamed put is heard", a_streamed_put_is_heard),
        IT("what changes nothing is not heard", what_changes_nothing_is_not_heard),
        IT("a deadline is kept", a_deadline_is_kept),
        IT("only a listener makes the bell, and an inotify instance",
           only_a_listener_makes_the_notify),
        IT("in 2,000 hand-overs between two processes no wake-up is lost",
           nothing_is_lost_between_two_processes),
        IT("several tasks listen through one instance", several_tasks_listen),
        IT("a bell removed under a store is made again", removed_under_a_store),
        IT("without an inotify instance a store is deaf, until there is one",
           deaf_without_an_instance),
        IT("who may only read does not listen", who_may_only_read_does_not_listen),
        IT("a store that cannot tell waits", a_store_that_cannot_tell),
        IT("a store in memory is heard, through wrappers too", memory_and_wrappers),
        IT("a forked child is not listening, and takes nothing from its parent",
           a_forked_child_is_not_listening),
        IT("a local store tells of the changes of others, not of its own",
           changes_of_others_are_told),
        IT("the first write of our own does not look like one of others",
           the_first_write_of_our_own_is_not_one_of_others),
        IT("no store is named like a bell", no_store_is_named_like_a_notify),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
