/* SPDX-License-Identifier: Apache-2.0 */
/* session_test.c: the sessions of a local store: who is gone and who is not, and bells that wake
 * one session only. */
#include "store/session.h"

#include "test.h"
#include "write_notify_kit.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct kind {
    const char *url, *sessions;
};

static const struct kind kinds[] = {
    { "sqlite:%s/s.db", "s.db-sessions" },
    { "dir:%s", "%sessions" },
};

#define EACH_KIND(kind) \
    for (const struct kind *kind = kinds; kind < kinds + sizeof kinds / sizeof kinds[0]; kind++)

static struct store *open_kind(const struct kind *kind)
{
    char url[4300];
    struct store *store = NULL;
    struct hf_error error;
    bool sqlite = kind == &kinds[0];
    snprintf(url, sizeof url, "%s:%s%s", sqlite ? "sqlite" : "dir", folder,
             sqlite ? "/s.db" : "");
    assert_status(HF_OK, store_open(env_real(), view_of(url), &store, &error), &error);
    return store;
}

static const char *path_in(const struct kind *kind, const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", kind->sessions, name);
    return in_folder(path);
}

/* Ids with a bell and an offset of their own. */
#define ID(bell) bell bell "0000000000000000000000000000"

static const char *const ids[] = { ID("00"), ID("7f"), ID("ff"), ID("80") };

static struct view place_of(struct store_session *session)
{
    struct view place = store_session_join(session);
    assert_int_equal(place.size, SESSION_PLACE_SIZE);
    return place;
}

static void sessions_of_one_process_see_each_other(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        start();
        struct store *store = open_kind(kind);
        struct store_session one, two, three;
        store_session_init(&one, store, ids[0]);
        store_session_init(&two, store, ids[1]);
        store_session_init(&three, store, ids[2]);
        store_session_find(&one);
        assert_int_equal(store_session_place(&one).size, 0); /* nobody has ever joined */
        assert_int_not_equal(access(in_folder(kind->sessions), F_OK), 0);
        struct view place = place_of(&one);
        assert_true(view_equal(place_of(&two), place));
        assert_true(view_equal(place_of(&one), place)); /* again */
        assert_false(store_session_gone(&one, view_of(ids[1])));
        assert_false(store_session_gone(&two, view_of(ids[0])));
        store_session_find(&three);
        assert_true(view_equal(store_session_place(&three), place));
        assert_false(store_session_gone(&three, view_of(ids[0])));
        assert_true(store_session_gone(&one, view_of(ids[2]))); /* it has not joined */
        store_session_release(&two);
        assert_true(store_session_gone(&one, view_of(ids[1])));
        assert_false(store_session_gone(&one, VIEW("not an id of ours")));
        store_session_release(&one);
        store_session_release(&three);
        store_close(store);
        finish();
    }
}

/* A child that joins, says so, and then waits to be killed. */
static pid_t start_member(const struct kind *kind, const char *id, bool forks)
{
    int pipe_of[2];
    char byte = 0;
    assert_int_equal(pipe(pipe_of), 0);
    pid_t pid = start_child();
    if (pid == 0) {
        struct store_session session;
        store_session_init(&session, open_kind(kind), id);
        byte = store_session_join(&session).size > 0 ? 'y' : 'n';
        if (forks && fork() == 0) { /* keeps the lock until its parent's parent has looked */
            close(pipe_of[1]);
            pause();
        }
        (void)!write(pipe_of[1], &byte, 1);
        pause();
        _exit(0);
    }
    close(pipe_of[1]);
    assert_int_equal(read(pipe_of[0], &byte, 1), 1);
    close(pipe_of[0]);
    assert_int_equal(byte, 'y');
    return pid;
}

static void end_member(pid_t pid, int signal_number)
{
    int status;
    kill(pid, signal_number);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void a_process_that_ends_is_gone(void **state)
{
    (void)state;
    static const int ends[] = { SIGKILL, SIGTERM, SIGINT };
    EACH_KIND(kind)
    {
        start();
        struct store *store = open_kind(kind);
        struct store_session one;
        store_session_init(&one, store, ids[0]);
        place_of(&one);
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
            char id[] = ID("10");
            id[3] = (char)('1' + i); /* the offset */
            pid_t pid = start_member(kind, id, /* forks */ false);
            assert_false(store_session_gone(&one, view_of(id)));
            kill(pid, SIGSTOP); /* slow, and not gone */
            assert_false(store_session_gone(&one, view_of(id)));
            kill(pid, SIGCONT);
            end_member(pid, ends[i]);
            assert_true(store_session_gone(&one, view_of(id)));
        }
        store_session_release(&one);
        store_close(store);
        finish();
    }
}

/* In a file that was made anew, nobody who joined the old one can be seen. */
static void another_file_is_another_place(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        start();
        struct store *store = open_kind(kind);
        struct store_session one, two, late;
        store_session_init(&one, store, ids[0]);
        store_session_init(&two, store, ids[1]);
        store_session_init(&late, store, ids[2]);
        char before[SESSION_PLACE_SIZE + 1];
        snprintf(before, sizeof before, "%.*s", VIEW_ARGS(place_of(&one)));
        store_session_find(&late);
        assert_int_equal(unlink(path_in(kind, "present")), 0);
        assert_false(view_equal(place_of(&two), view_of(before)));
        /* This one has found the old file, and does not join where nobody would look. */
        assert_int_equal(store_session_join(&late).size, 0);
        store_session_release(&one);
        store_session_release(&two);
        store_session_release(&late);
        store_close(store);
        finish();
    }
}

/* Makes the folder, and in it a file `present` with these bytes. */
static void make_present(const struct kind *kind, const char *bytes, size_t size)
{
    assert_int_equal(mkdir(in_folder(kind->sessions), 0755), 0);
    int fd = open(path_in(kind, "present"), O_CREAT | O_WRONLY, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

static void a_file_without_a_place_gets_one(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 3, SESSION_PLACE_SIZE };
    static const char zeros[SESSION_PLACE_SIZE];
    EACH_KIND(kind)
    {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            start();
            struct store *store = open_kind(kind);
            make_present(kind, zeros, sizes[i]);
            struct store_session one, two;
            store_session_init(&one, store, ids[0]);
            store_session_init(&two, store, ids[1]);
            store_session_find(&two); /* reads only */
            assert_int_equal(store_session_place(&two).size, 0);
            struct view place = place_of(&one);
            assert_true(view_equal(place_of(&two), place));
            store_session_release(&one);
            store_session_release(&two);
            store_close(store);
            finish();
        }
    }
}

static void assert_no_session(const struct kind *kind)
{
    struct store *store = open_kind(kind);
    struct store_session one;
    uint64_t ticket = 0;
    store_session_init(&one, store, ids[0]);
    assert_int_equal(store_session_join(&one).size, 0);
    assert_true(
        store_session_listen(&one, &ticket, far())); /* to the store's own notify file */
    store_session_release(&one);
    store_close(store);
}

static void a_file_of_another_kind_is_left_alone(void **state)
{
    (void)state;
    static const char *const contents[] = { "abc", "0123456X", "ZZZZZZZZ", "Our own data.\n" };
    EACH_KIND(kind)
    {
        for (size_t i = 0; i < sizeof contents / sizeof contents[0]; i++) {
            char after[32] = "";
            start();
            make_present(kind, contents[i], strlen(contents[i]));
            assert_no_session(kind);
            int fd = open(path_in(kind, "present"), O_RDONLY);
            assert_true(read(fd, after, sizeof after - 1) >= 0);
            close(fd);
            assert_string_equal(after, contents[i]);
            finish();
        }
    }
}

/* Whoever may write to the store may put links there, and must not write elsewhere with them. */
static void links_lead_nowhere(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        for (int of_file = 0; of_file < 2; of_file++) {
            struct stat st;
            start();
            assert_int_equal(mkdir(in_folder("theirs"), 0755), 0);
            int fd = open(in_folder("theirs/present"), O_CREAT | O_WRONLY, 0644);
            assert_true(fd >= 0);
            close(fd);
            if (of_file)
                assert_int_equal(mkdir(in_folder(kind->sessions), 0755), 0);
            const char *link = of_file ? path_in(kind, "present") : in_folder(kind->sessions);
            assert_int_equal(symlink(of_file ? "../theirs/present" : "theirs", link), 0);
            assert_no_session(kind);
            assert_int_equal(stat(in_folder("theirs/present"), &st), 0);
            assert_int_equal(st.st_size, 0);
            assert_int_equal(rmdir(in_folder("theirs")), -1);
            assert_int_equal(unlink(in_folder("theirs/present")), 0);
            assert_int_equal(rmdir(in_folder("theirs")), 0); /* nothing else is in it */
            finish();
        }
        start();
        assert_int_equal(mkdir(in_folder(kind->sessions), 0755), 0);
        assert_int_equal(mkfifo(path_in(kind, "present"), 0644), 0);
        assert_no_session(kind);
        finish();
    }
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

/* A user who may only read the store cannot open `present`: a shared lock would keep others from
 * joining, and make the dead look alive. */
static void files_are_like_the_store(void **state)
{
    (void)state;
    /* The modes of the store, the folder, `present` and a bell. */
    static const mode_t rows[][4] = { { 0660, 0770, 0660, 0660 },
                                      { 0644, 0755, 0600, 0644 },
                                      { 0664, 0775, 0660, 0664 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        start();
        struct store *store = open_kind(&kinds[0]);
        assert_int_equal(chmod(in_folder("s.db"), rows[i][0]), 0);
        struct store_session one;
        uint64_t ticket = 0;
        store_session_init(&one, store, ids[0]);
        place_of(&one);
        assert_true(store_session_listen(&one, &ticket, far()));
        assert_int_equal(mode_of(in_folder(kinds[0].sessions)), rows[i][1]);
        assert_int_equal(mode_of(path_in(&kinds[0], "present")), rows[i][2]);
        assert_int_equal(mode_of(path_in(&kinds[0], "00")), rows[i][3]);
        store_session_release(&one);
        store_close(store);
        finish();
    }
}

/* Two users who share a store by a group. Each makes a bell, which the other must be able to
 * ring. */
#define GROUP 70009

static void join_as(const struct kind *kind, uid_t user, const char *id)
{
    static const gid_t groups[] = { GROUP };
    pid_t pid = start_child();
    if (pid == 0) {
        struct store_session one;
        uint64_t ticket = 0;
        umask(007);
        if (setgroups(1, groups) != 0 || setgid(user) != 0 || setuid(user) != 0)
            _exit(1);
        store_session_init(&one, open_kind(kind), id);
        bool joined = store_session_join(&one).size > 0;
        _exit(joined && store_session_listen(&one, &ticket, far()) ? 0 : 1);
    }
    assert_int_equal(status_of(pid), 0);
}

static void users_of_a_group_share_sessions(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    EACH_KIND(kind)
    {
        static const char *const names[] = { "present", "00", "7f" };
        struct stat st;
        start();
        assert_int_equal(chown(folder, (uid_t)-1, GROUP), 0);
        assert_int_equal(chmod(folder, 02770), 0);
        join_as(kind, 70001, ids[0]);
        join_as(kind, 70002, ids[1]);
        assert_int_equal(stat(in_folder(kind->sessions), &st), 0);
        assert_int_equal(st.st_mode & 07777, 02770);
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            assert_int_equal(stat(path_in(kind, names[i]), &st), 0);
            assert_int_equal(st.st_mode & 07777, 0660);
            assert_int_equal(st.st_gid, GROUP);
        }
        finish();
    }
}

static bool hears(struct store_session *session, uint64_t *ticket)
{
    return store_session_listen(session, ticket, after_ms(0));
}

static void a_bell_wakes_one(void **state)
{
    (void)state;
    EACH_KIND(kind)
    {
        start();
        struct store *store = open_kind(kind), *other = open_kind(kind);
        struct store_session one, two, ringer;
        uint64_t first = 0, second = 0;
        store_session_init(&one, store, ids[0]);
        store_session_init(&two, store, ids[1]);
        store_session_init(&ringer, other, ids[2]);
        place_of(&one);
        place_of(&two);
        assert_true(hears(&one, &first) && hears(&two, &second)); /* the first look */
        assert_false(hears(&one, &first) || hears(&two, &second));
        struct session_bells bells = { { 0 } };
        store_session_ring(&ringer, &bells);
        assert_false(hears(&one, &first) || hears(&two, &second));
        assert_true(session_bells_add(&bells, view_of(ids[1])));
        assert_false(session_bells_add(&bells, VIEW("no id")));
        store_session_ring(&ringer, &bells);
        assert_true(store_session_listen(&two, &second, far()));
        assert_false(hears(&one, &first));
        struct put_call put = { .key = VIEW("a"), .body = VIEW("1") };
        assert_int_equal(store_put(other, &put), HF_OK);
        assert_false(hears(&one, &first) || hears(&two, &second)); /* it is no turn of theirs */
        store_session_ring_own(&one);
        assert_true(store_session_listen(&one, &first, far()));
        assert_false(hears(&two, &second));
        store_session_release(&one);
        store_session_release(&two);
        store_session_release(&ringer);
        store_close(store);
        store_close(other);
        finish();
    }
}

static void a_store_in_memory_has_no_sessions(void **state)
{
    (void)state;
    struct store *store = NULL;
    struct hf_error error;
    struct store_session one;
    uint64_t ticket = 0;
    assert_status(HF_OK, store_open(env_real(), VIEW("mem:"), &store, &error), &error);
    store_session_init(&one, store, ids[0]);
    assert_int_equal(store_session_join(&one).size, 0);
    assert_int_equal(store_session_place(&one).size, 0);
    assert_false(store_session_gone(&one, view_of(ids[1])));
    assert_true(store_session_listens(&one) && store_session_listen(&one, &ticket, far()));
    store_session_ring_own(&one);
    assert_true(store_session_listen(&one, &ticket, far()));
    store_session_release(&one);
    store_close(store);
}

/* The lock belongs to whoever has the open file. In doubt, a session is there. */
static void a_child_keeps_its_parents_lock(void **state)
{
    (void)state;
    start();
    struct store *store = open_kind(&kinds[0]);
    struct store_session one;
    store_session_init(&one, store, ids[0]);
    place_of(&one);
    pid_t pid = start_child();
    if (pid == 0) {
        setpgid(0, 0);
        pid_t member = start_member(&kinds[0], ids[3], /* forks */ true);
        end_member(member, SIGKILL);
        pause();
        _exit(0);
    }
    for (int i = 0; i < 2000 && store_session_gone(&one, view_of(ids[3])); i++)
        env_sleep(env_real(), SPAN_MS(1));
    assert_false(store_session_gone(&one, view_of(ids[3])));
    env_sleep(env_real(), SPAN_MS(50));
    assert_false(store_session_gone(&one, view_of(ids[3])));
    kill(-pid, SIGKILL);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    for (int i = 0; i < 2000 && !store_session_gone(&one, view_of(ids[3])); i++)
        env_sleep(env_real(), SPAN_MS(1));
    assert_true(store_session_gone(&one, view_of(ids[3])));
    store_session_release(&one);
    store_close(store);
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("sessions of one process see each other", sessions_of_one_process_see_each_other),
        IT("a process that ends is gone, however it ends, and a stopped one is not",
           a_process_that_ends_is_gone),
        IT("a child keeps its parent's lock", a_child_keeps_its_parents_lock),
        IT("a file that was made anew is another place", another_file_is_another_place),
        IT("a file without a place gets one", a_file_without_a_place_gets_one),
        IT("a file of another kind is left alone", a_file_of_another_kind_is_left_alone),
        IT("links in place of its files lead nowhere", links_lead_nowhere),
        IT("who may write to the store may use its sessions", files_are_like_the_store),
        IT("users of a group share sessions", users_of_a_group_share_sessions),
        IT("a bell wakes its session and no other", a_bell_wakes_one),
        IT("a store in memory has no sessions", a_store_in_memory_has_no_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
