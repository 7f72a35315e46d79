/* SPDX-License-Identifier: Apache-2.0 */
/* new_file_test.c: the mode of a file that appears atomically, before and after it replaces an old
 * one. */
#include "file/new_file.h"
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct scene {
    char *folder;
    char path[4096];
    struct new_file file;
    struct hf_error error;
};

/* In a folder with an old file of this mode, unless it is 0. */
static void begin(struct scene *scene, mode_t old)
{
    *scene = (struct scene){ .folder = test_dir_make(), .file = NEW_FILE_NONE };
    snprintf(scene->path, sizeof scene->path, "%s/name", scene->folder);
    if (old == 0)
        return;
    int fd = open(scene->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, old), 0);
    close(fd);
}

static void end(struct scene *scene)
{
    new_file_release(&scene->file);
    test_dir_remove(scene->folder);
}

static enum hf_status create(struct scene *scene, bool is_private)
{
    struct env *env = env_real();
    if (is_private)
        return new_file_create_private(&scene->file, env, scene->path, &scene->error);
    return new_file_create(&scene->file, env, scene->path, (struct file_watch){ 0 },
                           &scene->error);
}

static void expect_modes(mode_t old, bool is_private, mode_t mode)
{
    struct scene scene;
    struct stat info;
    begin(&scene, old);
    assert_status(HF_OK, create(&scene, is_private), &scene.error);
    assert_int_equal(fstat(scene.file.fd, &info), 0);
    assert_int_equal(info.st_mode & 0777, mode);
    assert_status(HF_OK, new_file_keep(&scene.file, &scene.error), &scene.error);
    assert_int_equal(stat(scene.path, &info), 0);
    assert_int_equal(info.st_mode & 0777, mode);
    end(&scene);
}

static void a_private_file_is_private(void **state)
{
    (void)state;
    mode_t mask = umask(0);
    expect_modes(/* old */ 0, /* is_private */ true, 0600);
    expect_modes(/* old */ 0644, /* is_private */ true, 0600);
    umask(mask);
}

/* A group of ours that is not our first one, or any if we are root. */
static bool find_group(gid_t *ret_group)
{
    gid_t groups[256];
    int count = getgroups(256, groups);
    if (geteuid() == 0) {
        *ret_group = 54321;
        return true;
    }
    for (int i = 0; i < count; i++)
        if ((*ret_group = groups[i]) != getegid())
            return true;
    return false;
}

static void a_group_is_kept(void **state)
{
    (void)state;
    struct scene scene;
    struct stat info;
    gid_t group;
    if (!find_group(&group)) /* there is nobody else to be kept out */
        return;
    begin(&scene, 0640);
    assert_int_equal(chown(scene.path, (uid_t)-1, group), 0);
    assert_status(HF_OK, create(&scene, /* is_private */ false), &scene.error);
    assert_int_equal(fstat(scene.file.fd, &info), 0);
    assert_int_equal(info.st_gid, group);
    assert_int_equal(info.st_mode & 0777, 0640);
    end(&scene);
}

static void a_mode_is_kept(void **state)
{
    (void)state;
    mode_t mask = umask(022);
    expect_modes(/* old */ 0, /* is_private */ false, 0644);
    expect_modes(/* old */ 0600, /* is_private */ false, 0600);
    expect_modes(/* old */ 0664, /* is_private */ false, 0664);
    umask(mask);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a private file has mode 0600, whatever the umask and the file that it replaces",
           a_private_file_is_private),
        IT("any other file has the mode of the file that it replaces, or that of the umask",
           a_mode_is_kept),
        IT("and its group", a_group_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
