/* SPDX-License-Identifier: Apache-2.0 */
/* merger_scratch_test.c: the directories in which the merger keeps its files: which are removed
 * and which are refused. */
#include "merger_kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Scratch folders ----------------------------------------------------------------- */

static void test_stale_folders(void **state)
{
    struct smithy smithy;
    struct hf_error error;
    char stale[4400], held[4400], fresh[4400], lock[4500];
    (void)state;
    smithy_open(&smithy);
    snprintf(stale, sizeof stale, "%s/holdfast-scratch-0000000000000001", smithy.scratch);
    snprintf(held, sizeof held, "%s/holdfast-scratch-0000000000000002", smithy.scratch);
    snprintf(fresh, sizeof fresh, "%s/holdfast-scratch-0000000000000003", smithy.scratch);
    assert_int_equal(mkdir(stale, 0700) | mkdir(held, 0700) | mkdir(fresh, 0700), 0);
    snprintf(lock, sizeof lock, "%s/lock", stale);
    close(open(lock, O_CREAT | O_RDWR, 0600));
    snprintf(lock, sizeof lock, "%s/lock", held);
    int fd = open(lock, O_CREAT | O_RDWR, 0600);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    struct merger *other =
        file_merger_new(env_real(), &smithy.peer.way.base, smithy.scratch, 1, &error);
    assert_non_null(other);
    assert_int_not_equal(access(stale, F_OK), 0);
    assert_int_equal(access(held, F_OK), 0);
    assert_int_not_equal(access(fresh, F_OK), 0);
    assert_status(HF_OK, merger(&smithy), &smithy.error); /* its own is still there */
    file_merger_free(other);
    close(fd);
    smithy_close(&smithy);
}

/* The folder of a dead worker, as far as names tell, with a file in it. */
static void make_stale(const char *scratch, int number, char path[4400])
{
    char inner[4500];
    snprintf(path, 4400, "%s/holdfast-scratch-%016d", scratch, number);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(inner, sizeof inner, "%s/lock", path);
    close(open(inner, O_CREAT | O_RDWR, 0600));
    snprintf(inner, sizeof inner, "%s/data", path);
    close(open(inner, O_CREAT | O_RDWR, 0600));
}

static void open_and_close_another(struct smithy *smithy)
{
    struct hf_error error;
    struct merger *other =
        file_merger_new(env_real(), &smithy->peer.way.base, smithy->scratch, 1, &error);
    if (!other)
        FAIL("%s", error.why);
    file_merger_free(other);
}

#define NOBODY 65534

static void test_folders_of_others(void **state)
{
    struct smithy smithy;
    char theirs[4400], open_to_all[4400], target[4400], link[4400], stale[4400];
    bool is_root = geteuid() == 0;
    (void)state;
    smithy_open(&smithy);
    make_stale(smithy.scratch, 1, theirs);
    make_stale(smithy.scratch, 2, open_to_all);
    make_stale(smithy.scratch, 3, stale);
    snprintf(target, sizeof target, "%s/elsewhere", smithy.scratch);
    snprintf(link, sizeof link, "%s/holdfast-scratch-%016d", smithy.scratch, 4);
    assert_int_equal(rename(stale, target), 0);
    assert_int_equal(symlink("elsewhere", link), 0);
    assert_int_equal(chmod(open_to_all, 0755), 0);
    if (is_root)
        assert_int_equal(chown(theirs, NOBODY, NOBODY), 0);
    open_and_close_another(&smithy);
    size_t left = is_root ? 4 : 3; /* data of all but ours, and the link */
    assert_int_equal(files_in(smithy.scratch), left);
    assert_int_equal(access(link, F_OK) | access(open_to_all, F_OK) | access(target, F_OK), 0);
    assert_int_equal(access(theirs, F_OK) == 0, is_root);
    const char *const rest[] = { "/elsewhere/data", "/holdfast-scratch-0000000000000001/data",
                                 "/holdfast-scratch-0000000000000002/data",
                                 "/holdfast-scratch-0000000000000004" };
    for (size_t i = 0; i < 4; i++) {
        char path[4600];
        snprintf(path, sizeof path, "%s%s", smithy.scratch, rest[i]);
        (void)unlink(path);
    }
    smithy_close(&smithy);
}

/* Links and folders within the folder of a dead worker are removed, and what they lead to stays. */
static void test_stale_tree(void **state)
{
    struct smithy smithy;
    char stale[4400], path[4600], *outside = test_dir_make();
    (void)state;
    smithy_open(&smithy);
    make_stale(smithy.scratch, 1, stale);
    snprintf(path, sizeof path, "%s/kept", outside);
    close(open(path, O_CREAT | O_RDWR, 0600));
    snprintf(path, sizeof path, "%s/1", stale);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/1/2", stale);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/1/2/link", stale);
    assert_int_equal(symlink(outside, path), 0);
    open_and_close_another(&smithy);
    assert_int_not_equal(access(stale, F_OK), 0);
    assert_int_equal(files_in(outside), 1);
    test_dir_remove(outside);
    smithy_close(&smithy);
}

static void expect_unsafe(struct smithy *smithy, const char *why)
{
    struct hf_error error;
    struct merger *other =
        file_merger_new(env_real(), &smithy->peer.way.base, smithy->scratch, 1, &error);
    if (other)
        FAIL("a folder was made where %s", why);
    assert_int_equal(error.status, HF_DENIED);
    if (!strstr(error.why, why) || !strstr(error.why, smithy->scratch))
        FAIL("%s", error.why);
}

static void test_unsafe_parent(void **state)
{
    struct smithy smithy;
    (void)state;
    smithy_open(&smithy);
    assert_int_equal(chmod(smithy.scratch, 0777), 0);
    expect_unsafe(&smithy, "every user can rename files in it");
    assert_int_equal(chmod(smithy.scratch, 01777), 0);
    open_and_close_another(&smithy);
    if (geteuid() == 0) {
        assert_int_equal(chown(smithy.scratch, NOBODY, NOBODY), 0);
        expect_unsafe(&smithy, "it belongs to another user (uid 65534)");
        assert_int_equal(chown(smithy.scratch, 0, 0), 0);
    }
    smithy_close(&smithy);
}

static void test_no_scratch(void **state)
{
    struct smithy smithy;
    struct hf_error error;
    (void)state;
    smithy_open(&smithy);
    assert_null(
        file_merger_new(env_real(), &smithy.peer.way.base, "/nowhere/at/all", 1, &error));
    assert_non_null(strstr(error.why, "/nowhere/at/all"));
    smithy_close(&smithy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("folders of the dead are removed, those of the living are not", test_stale_folders),
        IT("a folder that another user made, that others may enter, or a link is left alone",
           test_folders_of_others),
        IT("what a link in the folder of the dead leads to stays", test_stale_tree),
        IT("a scratch folder in which other users could replace files is refused",
           test_unsafe_parent),
        IT("a scratch folder that is not there is named", test_no_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
