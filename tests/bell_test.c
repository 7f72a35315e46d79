/* bell_test.c: the bell by itself: its one watch, the tasks that share it, and what may happen to
 * the file. */
#include "bell_kit.h"
#include "store/bell.h"
#include "test.h"

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

static struct bell *bell_new(void)
{
    char name[4200];
    static char like[4200];
    struct bell *bell = malloc(sizeof *bell);
    assert_non_null(bell);
    make_file("like");
    snprintf(like, sizeof like, "%s", in_folder("like"));
    snprintf(name, sizeof name, "%s", in_folder("bell"));
    bell_init(bell, env_real(), AT_FDCWD, name, like, /* writable */ true);
    return bell;
}

static void bell_free(struct bell *bell)
{
    bell_release(bell, /* forked */ false);
    free(bell);
}

/* Takes in all that was heard. */
static void settle(struct bell *bell, uint64_t *ticket)
{
    for (int i = 0; i < 100 && bell_listen(bell, ticket, bell_now()); i++)
        ;
    assert_false(bell_listen(bell, ticket, bell_now()));
}

/* ---- Tasks that listen --------------------------------------------------------------- */

struct stay {
    struct bell *bell;
    uint64_t ticket;
    struct mono_time until;
    bool news;
    struct env_task *task;
};

static void stay(void *argument)
{
    struct stay *stay = argument;
    stay->news = bell_listen(stay->bell, &stay->ticket, stay->until);
}

static void stay_start(struct stay *one, struct bell *bell, uint64_t ticket,
                       struct mono_time until)
{
    struct hf_error error;
    *one = (struct stay){ .bell = bell, .ticket = ticket, .until = until };
    assert_status(HF_OK, env_task_start(env_real(), stay, one, &one->task, &error), &error);
}

static bool stay_end(struct stay *one)
{
    env_task_join(env_real(), one->task);
    return one->news;
}

static void until_listening(struct bell *bell, bool polled, size_t waiting)
{
    bool there = false;
    while (!there) {
        env_mutex_lock(&bell->shared.mutex);
        there = bell->shared.polled == polled && bell->shared.waiting == waiting;
        env_mutex_unlock(&bell->shared.mutex);
        sched_yield();
    }
}

static void another_takes_over(void **state)
{
    (void)state;
    start();
    struct bell *bell = bell_new();
    uint64_t ticket = 0;
    struct stay first, second, third;
    settle(bell, &ticket);
    stay_start(&first, bell, ticket, after_ms(200));
    until_listening(bell, true, 0);
    stay_start(&second, bell, ticket, (struct mono_time){ MOMENT_FAR });
    until_listening(bell, true, 1);
    stay_start(&third, bell, ticket, (struct mono_time){ MOMENT_FAR });
    until_listening(bell, true, 2);
    assert_false(stay_end(&first));
    until_listening(bell, true, 1);
    bell_ring(bell);
    assert_true(stay_end(&second));
    assert_true(stay_end(&third));
    bell_free(bell);
    finish();
}

/* The one who polls does so elsewhere here, and hears nothing: only the look of the other can. */
static void a_late_look_beside_the_poller(void **state)
{
    (void)state;
    start();
    struct bell *bell = bell_new();
    uint64_t ticket = 0;
    settle(bell, &ticket);
    bell->shared.polled = true;
    assert_false(bell_listen(bell, &ticket, bell_now()));
    bell_ring(bell);
    assert_true(bell_listen(bell, &ticket, bell_now()));
    bell->shared.polled = false;
    settle(bell, &ticket);
    bell_free(bell);
    finish();
}

static void all_who_wait_are_told(void **state)
{
    (void)state;
    start();
    struct bell *bell = bell_new();
    uint64_t ticket = 0;
    struct stay first, second;
    settle(bell, &ticket);
    bell->shared.polled = true;
    stay_start(&first, bell, ticket, (struct mono_time){ MOMENT_FAR });
    stay_start(&second, bell, ticket, (struct mono_time){ MOMENT_FAR });
    until_listening(bell, true, 2);
    bell_ring(bell);
    assert_true(bell_listen(bell, &ticket, bell_now()));
    assert_true(stay_end(&first));
    assert_true(stay_end(&second));
    bell->shared.polled = false;
    bell_free(bell);
    finish();
}

/* The child has not got the tasks that wait, but their traces in the mutex and the condition. */
static void a_forked_child_lets_go(void **state)
{
    (void)state;
    start();
    struct bell *bell = bell_new();
    uint64_t ticket = 0;
    struct stay first, second;
    settle(bell, &ticket);
    stay_start(&first, bell, ticket, far());
    until_listening(bell, true, 0);
    stay_start(&second, bell, ticket, far());
    until_listening(bell, true, 1);
    pid_t child = start_child();
    if (child == 0) {
        bell_release(bell, /* forked */ true);
        _exit(0);
    }
    assert_int_equal(status_of(child), 0);
    bell_ring(bell);
    assert_true(stay_end(&first));
    assert_true(stay_end(&second));
    bell_free(bell);
    finish();
}

/* ---- The file ------------------------------------------------------------------------ */

/* Whatever happens to the file, a ring is heard after it. */
static void heard_after(struct bell *bell, uint64_t *ticket, const char *what)
{
    if (!bell_listen(bell, ticket, far()))
        fail_msg("%s was not noticed", what);
    settle(bell, ticket);
    assert_true(bell_listens(bell));
    bell_ring(bell);
    if (!bell_listen(bell, ticket, bell_now()))
        fail_msg("after %s a ring was not heard", what);
    settle(bell, ticket);
}

static void a_bell_that_goes_is_made_again(void **state)
{
    (void)state;
    start();
    struct bell *bell = bell_new();
    uint64_t ticket = 0;
    char other[4200];
    snprintf(other, sizeof other, "%s", in_folder("other"));
    settle(bell, &ticket);
    assert_int_equal(unlink(bell->name), 0);
    heard_after(bell, &ticket, "unlink");
    int held = open(bell->name, O_RDONLY | O_CLOEXEC);
    settle(bell, &ticket);
    assert_int_equal(unlink(bell->name), 0);
    heard_after(bell, &ticket, "unlink of an open file");
    close(held);
    settle(bell, &ticket);
    assert_int_equal(rename(bell->name, other), 0);
    heard_after(bell, &ticket, "a move away");
    assert_int_equal(rename(other, bell->name), 0);
    heard_after(bell, &ticket, "another file in its place");
    bell_free(bell);
    finish();
}

static void a_bell_that_cannot_be_made_again(void **state)
{
    (void)state;
    start();
    struct bell *bell = bell_new();
    uint64_t ticket = 0;
    struct stay one, two;
    settle(bell, &ticket);
    stay_start(&one, bell, ticket, (struct mono_time){ MOMENT_FAR });
    until_listening(bell, true, 0);
    stay_start(&two, bell, ticket, (struct mono_time){ MOMENT_FAR });
    until_listening(bell, true, 1);
    assert_int_equal(unlink(in_folder("like")), 0);
    assert_int_equal(unlink(bell->name), 0);
    assert_true(stay_end(&one));
    assert_true(stay_end(&two));
    assert_false(bell_listens(bell));
    assert_int_equal(inotify_instances(), 0);
    ticket = one.ticket;
    struct mono_time until = after_ms(10);
    assert_false(bell_listen(bell, &ticket, until));
    assert_false(mono_before(bell_now(), until));
    make_file("like");
    assert_true(bell_listen(bell, &ticket, until));
    assert_true(bell_listens(bell));
    bell_free(bell);
    finish();
}

static void the_bell_has_the_rights_of_the_store(void **state)
{
    (void)state;
    start();
    mode_t mask = umask(077);
    struct bell *bell = bell_new();
    assert_int_equal(chmod(in_folder("like"), 0664), 0);
    uint64_t ticket = 0;
    settle(bell, &ticket);
    umask(mask);
    struct stat st;
    assert_int_equal(stat(bell->name, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0664);
    bell_free(bell);
    finish();
}

static void a_ring_without_descriptors(void **state)
{
    (void)state;
    start();
    struct bell *bell = bell_new();
    uint64_t ticket = 0;
    settle(bell, &ticket);
    struct rlimit old = use_up_descriptors();
    bell_ring(bell);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_true(bell_listen(bell, &ticket, bell_now()));
    assert_true(bell_listens(bell));
    bell_free(bell);
    finish();
}

static void a_file_system_of_others(void **state)
{
    (void)state;
    struct bell *bell = malloc(sizeof *bell);
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(bell && proc >= 0);
    bell_init(bell, env_real(), proc, "uptime", "uptime", /* writable */ true);
    assert_false(bell_listens(bell));
    uint64_t ticket = 0;
    assert_true(bell_listen(bell, &ticket, bell_now()));
    bell_ring(bell);
    struct mono_time until = after_ms(5);
    assert_false(bell_listen(bell, &ticket, until));
    assert_false(mono_before(bell_now(), until));
    assert_int_equal(inotify_instances(), 0);
    bell_free(bell);
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
