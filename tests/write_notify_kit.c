/* SPDX-License-Identifier: Apache-2.0 */
/* write_notify_kit.c: steps that the tests of the notify file and of listening stores share. */
#include "write_notify_kit.h"

#include "test.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

char *folder;

void start(void)
{
    folder = test_dir_make();
}

void finish(void)
{
    test_dir_remove(folder);
    folder = NULL;
}

const char *in_folder(const char *name)
{
    static char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

struct mono_time write_notify_now(void)
{
    return env_now(env_real());
}

struct mono_time after_ms(int64_t ms)
{
    return mono_add(write_notify_now(), SPAN_MS(ms));
}

struct mono_time far(void)
{
    return after_ms(20000);
}

pid_t start_child(void)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    return pid;
}

int status_of(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

size_t inotify_instances(void)
{
    size_t count = 0;
    DIR *fds = opendir("/proc/self/fd");
    assert_non_null(fds);
    struct dirent *entry;
    while ((entry = readdir(fds))) {
        char target[64] = "";
        ssize_t size = readlinkat(dirfd(fds), entry->d_name, target, sizeof target - 1);
        count += size > 0 && strcmp(target, "anon_inode:inotify") == 0;
    }
    closedir(fds);
    return count;
}

struct rlimit use_up_descriptors(void)
{
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    struct rlimit none = { .rlim_cur = 0, .rlim_max = old.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    return old;
}
