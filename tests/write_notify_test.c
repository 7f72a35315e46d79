/* SPDX-License-Identifier: Apache-2.0 */
/* write_notify_test.c: the notify file alone: its one watch, the tasks that share it, and
 * everything that may happen to the file. */
#include "store/write_notify.h"
#include "test.h"
#include "write_notify_kit.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void make_file(const char *name)
{
    int fd = open(in_folder(name), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    close(fd);
}

static struct write_notify *write_notify_new(void)
{
    char name[4200];
    static char like[4200];
    struct write_notify *notify = malloc(sizeof *notify);
    assert_non_null(notify);
    make_file("like");
    snprintf(like, sizeof like, "%s", in_folder("like"));
    snprintf(name, sizeof name, "%s", in_folder("bell"));
    write_notify_init(notify, env_real(), AT_FDCWD, name, like, /* writable */ true);
    return notify;
}

static void write_notify_free(struct write_notify *notify)
{
    write_notify_release(notify);
    free(notify);
}

/* Takes in all that was heard. */
static void settle(struct write_notify *notify, uint64_t *ticket)
{
    for (int i = 0; i < 100 && write_notify_listen(notify, ticket, write_notify_now()); i++)
        ;
    assert_false(write_notify_listen(notify, ticket, write_notify_now()));
}

/* ---- Tasks that listen --------------------------------------------------------------- */

struct stay {
    struct write_notify *notify;
    uint64_t ticket;
    struct mono_time until;
    bool news;
    struct env_task *task;
};

static void stay(void *argument)
{
    struct stay *stay = argument;
    stay->news = write_notify_listen(stay->notify, &stay->ticket, stay->until);
}

static void stay_start(struct stay *one, struct write_notify *notify, uint64_t ticket,
                       struct mono_time until)
{
    struct hf_error error;
    *one = (struct stay){ .notify = notify, .ticket = ticket, .until = until };
    assert_status(HF_OK, env_task_start(env_real(), stay, one, &one->task, &error), &error);
}

static bool stay_end(struct stay *one)
{
    env_task_join(env_real(), one->task);
    return one->news;
}

static void until_listening(struct write_notify *notify, bool polled, size_t waiting)
{
    bool there = false;
    while (!there) {
        env_mutex_lock(&notify->shared.mutex);
        there = notify->shared.polled == polled && notify->shared.waiting == waiting;
        env_mutex_unlock(&notify->shared.mutex);
        sched_yield();
    }
}

static void another_takes_over(void **state)
{
    (void)state;
    start();
    struct write_notify *notify = write_notify_new();
    uint64_t ticket = 0;
    struct stay first, second, third;
    settle(notify, &ticket);
    stay_start(&first, notify, ticket, after_ms(200));
    until_listening(notify, true, 0);
    stay_start(&second, notify, ticket, (struct mono_time){ MOMENT_FAR });
    until_listening(notify, true, 1);
    stay_start(&third, notify, ticket, (struct mono_time){ MOMENT_FAR });
    until_listening(notify, true, 2);
    assert_false(stay_end(&first));
    until_listening(notify, true, 1);
    write_notify_ring(notify);
    assert_true(stay_end(&second));
    assert_true(stay_end(&third));
    write_notify_free(notify);
    finish();
}

/* The one who polls does so elsewhere here, and hears nothing: only the look of the other can. */
static void a_late_look_beside_the_poller(void **state)
{
    (void)state;
    start();
    struct write_notify *notify = write_notify_new();
    uint64_t ticket = 0;
    settle(notify, &ticket);
    notify->shared.polled = true;
    assert_false(write_notify_listen(notify, &ticket, write_notify_now()));
    write_notify_ring(notify);
    assert_true(write_notify_listen(notify, &ticket, write_notify_now()));
    notify->shared.polled = false;
    settle(notify, &ticket);
    write_notify_free(notify);
    finish();
}

static void all_who_wait_are_told(void **state)
{
    (void)state;
    start();
    struct write_notify *notify = write_notify_new();
    uint64_t ticket = 0;
    struct stay first, second;
    settle(notify, &ticket);
    notify->shared.polled = true;
    stay_start(&first, notify, ticket, (struct mono_time){ MOMENT_FAR });
    stay_start(&second, notify, ticket, (struct mono_time){ MOMENT_FAR });
    until_listening(notify, true, 2);
    write_notify_ring(notify);
    assert_true(write_notify_listen(notify, &ticket, write_notify_now()));
    assert_true(stay_end(&first));
    assert_true(stay_end(&second));
    notify->shared.polled = false;
    write_notify_free(notify);
    finish();
}

/* The child has not got the tasks that wait, but their traces in the mutex and the condition. */
static void a_forked_child_lets_go(void **state)
{
    (void)state;
    start();
    struct write_notify *notify = write_notify_new();
    uint64_t ticket = 0;
    struct stay first, second;
    settle(notify, &ticket);
    stay_start(&first, notify, ticket, far());
    until_listening(notify, true, 0);
    stay_start(&second, notify, ticket, far());
    until_listening(notify, true, 1);
    pid_t child = start_child();
    if (child == 0) {
        write_notify_release(notify);
        _exit(0);
    }
    assert_int_equal(status_of(child), 0);
    write_notify_ring(notify);
    assert_true(stay_end(&first));
    assert_true(stay_end(&second));
    write_notify_free(notify);
    finish();
}

/* ---- The file ------------------------------------------------------------------------ */

/* Whatever happens to the file, a ring is heard after it. */
static void heard_after(struct write_notify *notify, uint64_t *ticket, const char *what)
{
    if (!write_notify_listen(notify, ticket, far()))
        fail_msg("%s was not noticed", what);
    settle(notify, ticket);
    assert_true(write_notify_listens(notify));
    write_notify_ring(notify);
    if (!write_notify_listen(notify, ticket, write_notify_now()))
        fail_msg("after %s a ring was not heard", what);
    settle(notify, ticket);
}

static void a_bell_that_goes_is_made_again(void **state)
{
    (void)state;
    start();
    struct write_notify *notify = write_notify_new();
    uint64_t ticket = 0;
    char other[4200];
    snprintf(other, sizeof other, "%s", in_folder("other"));
    settle(notify, &ticket);
    assert_int_equal(unlink(notify->name), 0);
    heard_after(notify, &ticket, "unlink");
    int held = open(notify->name, O_RDONLY | O_CLOEXEC);
    settle(notify, &ticket);
    assert_int_equal(unlink(notify->name), 0);
    heard_after(notify, &ticket, "unlink of an open file");
    close(held);
    settle(notify, &ticket);
    assert_int_equal(rename(notify->name, other), 0);
    heard_after(notify, &ticket, "a move away");
    assert_int_equal(rename(other, notify->name), 0);
    heard_after(notify, &ticket, "another file in its place");
    write_notify_free(notify);
    finish();
}

static void a_bell_that_cannot_be_made_again(void **state)
{
    (void)state;
    start();
    struct write_notify *notify = write_notify_new();
    uint64_t ticket = 0;
    struct stay one, two;
    settle(notify, &ticket);
    stay_start(&one, notify, ticket, (struct mono_time){ MOMENT_FAR });
    until_listening(notify, true, 0);
    stay_start(&two, notify, ticket, (struct mono_time){ MOMENT_FAR });
    until_listening(notify, true, 1);
    assert_int_equal(unlink(in_folder("like")), 0);
    assert_int_equal(unlink(notify->name), 0);
    assert_true(stay_end(&one));
    assert_true(stay_end(&two));
    assert_false(write_notify_listens(notify));
    assert_int_equal(inotify_instances(), 0);
    ticket = one.ticket;
    struct mono_time until = after_ms(10);
    assert_false(write_notify_listen(notify, &ticket, until));
    assert_false(mono_before(write_notify_now(), until));
    make_file("like");
    assert_true(write_notify_listen(notify, &ticket, until));
    assert_true(write_notify_listens(notify));
    write_notify_free(notify);
    finish();
}

static void the_bell_has_the_rights_of_the_store(void **state)
{
    (void)state;
    start();
    mode_t mask = umask(077);
    struct write_notify *notify = write_notify_new();
    assert_int_equal(chmod(in_folder("like"), 0664), 0);
    uint64_t ticket = 0;
    settle(notify, &ticket);
    umask(mask);
    struct stat st;
    assert_int_equal(stat(notify->name, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0664);
    write_notify_free(notify);
    finish();
}

static void a_ring_without_descriptors(void **state)
{
    (void)state;
    start();
    struct write_notify *notify = write_notify_new();
    uint64_t ticket = 0;
    settle(notify, &ticket);
    struct rlimit old = use_up_descriptors();
    write_notify_ring(notify);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_true(write_notify_listen(notify, &ticket, write_notify_now()));
    assert_true(write_notify_listens(notify));
    write_notify_free(notify);
    finish();
}

static void a_file_system_of_others(void **state)
{
    (void)state;
    struct write_notify *notify = malloc(sizeof *notify);
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(notify && proc >= 0);
    write_notify_init(notify, env_real(), proc, "uptime", "uptime", /* writable */ true);
    assert_false(write_notify_listens(notify));
    uint64_t ticket = 0;
    assert_true(write_notify_listen(notify, &ticket, write_notify_now()));
    write_notify_ring(notify);
    struct mono_time until = after_ms(5);
    assert_false(write_notify_listen(notify, &ticket, until));
    assert_false(mono_before(write_notify_now(), until));
    assert_int_equal(inotify_instances(), 0);
    write_notify_free(notify);
    close(proc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("when the one who polls leaves, another takes over", another_takes_over),
        IT("a listener without time hears what the one who polls has not heard yet",
           a_late_look_beside_the_poller),
        IT("all who wait are told, whoever has heard it", all_who_wait_are_told),
        IT("a bell that is removed, moved or replaced is heard again",
           a_bell_that_goes_is_made_again),
        IT("a bell that cannot be made again wakes all, and deadlines are kept",
           a_bell_that_cannot_be_made_again),
        IT("who may write to the store may open the bell",
           the_bell_has_the_rights_of_the_store),
        IT("a process without descriptors rings all the same", a_ring_without_descriptors),
        IT("a file system that others may change has no bell", a_file_system_of_others),
        IT("a forked child lets go of a bell at which others wait", a_forked_child_lets_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
