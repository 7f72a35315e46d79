/* SPDX-License-Identifier: Apache-2.0 */
/* descendants.c: finds and signals all descendants of this process. It must not signal an unrelated
 * process that has been given the id of a descendant that ended in the meantime. */
#include "cli/run/descendants.h"

#include "base/check.h"
#include "base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROC_PATH_MAX 64

/* The processes found so far, in breadth-first order. */
struct walk {
    const struct spared *spared; /* or NULL */
    size_t count;
    struct {
        pid_t pid;
        pid_t parent;
    } found[DESCENDANTS_MAX];
};

/* Static because it is too large for the stack; only one walk runs at a time. */
static struct walk the_walk;

static struct walk *walk_begin(const struct spared *spared)
{
    the_walk.spared = spared;
    the_walk.count = 0;
    return &the_walk;
}

static bool spares_child(const struct spared *spared, pid_t pid)
{
    for (size_t i = 0; spared && i < spared->count; i++)
        if (spared->children[i] == pid)
            return true;
    return false;
}

static void walk_add(struct walk *walk, pid_t pid, pid_t parent)
{
    if (walk->count == DESCENDANTS_MAX || spares_child(walk->spared, pid))
        return;
    walk->found[walk->count].pid = pid;
    walk->found[walk->count].parent = parent;
    walk->count++;
}

static bool parse_pid(struct view text, pid_t *ret_pid)
{
    uint64_t number;
    if (parse_u64(text, INT32_MAX, &number, /* error */ NULL) != HF_OK || number == 0)
        return false;
    *ret_pid = (pid_t)number;
    return true;
}

/* The parent of a process; 0 if the process is gone. The text is "12 (a name) S 11 ...". The name
 * may contain parentheses, so the last one ends it. */
static pid_t read_parent(pid_t pid)
{
    char path[PROC_PATH_MAX], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t size = read(fd, text, sizeof text);
    close(fd);
    struct view stat = { text, size > 0 ? (size_t)size : 0 };
    size_t at = stat.size;
    while (at > 0 && stat.data[at - 1] != ')')
        at--;
    struct view rest = view_from(stat, at + 1);
    view_cut(&rest, ' ');
    pid_t parent;
    return at > 0 && parse_pid(view_cut(&rest, ' '), &parent) ? parent : 0;
}

/* The bound ends a walk in which process ids are reused meanwhile. */
bool descendants_is_ancestor(pid_t pid)
{
    pid_t at = getppid();
    for (size_t i = 0; i < DESCENDANTS_MAX && at > 1 && at != pid; i++)
        at = read_parent(at);
    return at == pid && pid > 1;
}

/* The process id may have been reused since the walk. A pidfd always refers to one process: it is
 * opened first, and used only if the parent of the process is still the one from the walk, or is
 * this process because the parent has ended. False if we may not signal the process. */
static bool signal_one(pid_t pid, pid_t parent, int number)
{
    int fd = pidfd_open(pid, 0);
    if (fd < 0 && errno == ESRCH)
        return true;
    pid_t now = read_parent(pid);
    bool allowed = true;
    if (now != 0 && (now == parent || now == getpid())) {
        int sent = fd >= 0 ? pidfd_send_signal(fd, number, NULL, 0) : kill(pid, number);
        allowed = sent == 0 || errno != EPERM;
    }
    if (fd >= 0)
        close(fd);
    return allowed;
}

static struct descendants_found signal_all(const struct walk *walk, int number)
{
    struct descendants_found found = { .count = walk->count };
    if (walk->count > 0)
        found.example = walk->found[0].pid;
    for (size_t i = 0; i < walk->count; i++)
        if (!signal_one(walk->found[i].pid, walk->found[i].parent, number))
            found.example = walk->found[i].pid;
    return found;
}

/* Adds the children of one thread, listed as "12 13 ". A number may be split between two reads. */
static bool add_children_of_thread(struct walk *walk, pid_t pid, const char *thread)
{
    char path[PROC_PATH_MAX + NAME_MAX], text[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)pid, thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    uint32_t number = 0;
    for (ssize_t size; (size = read(fd, text, sizeof text)) > 0;) {
        for (ssize_t i = 0; i < size; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                number = number * 10 + (uint32_t)(text[i] - '0');
            } else if (number > 0) {
                walk_add(walk, (pid_t)number, pid);
                number = 0;
            }
        }
    }
    close(fd);
    return true;
}

/* False if no thread has a list of children: the process is gone, or the kernel does not provide
 * the list. */
static bool add_children(struct walk *walk, pid_t pid)
{
    char path[PROC_PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    if (!threads)
        return false;
    bool listed = false;
    for (const struct dirent *entry; (entry = readdir(threads));)
        if (entry->d_name[0] != '.' && add_children_of_thread(walk, pid, entry->d_name))
            listed = true;
    closedir(threads);
    return listed;
}

struct descendants_found descendants_signal(int number, const struct spared *spared)
{
    struct walk *walk = walk_begin(spared);
    if (!add_children(walk, getpid()))
        return descendants_signal_by_scan(number, spared);
    for (size_t i = 0; i < walk->count; i++)
        add_children(walk, walk->found[i].pid);
    return signal_all(walk, number);
}

static bool is_found(const struct walk *walk, pid_t pid)
{
    for (size_t i = 0; i < walk->count; i++)
        if (walk->found[i].pid == pid)
            return true;
    return false;
}

/* Adds every process whose parent was already found or is this process. A child may have a lower id
 * than its parent, so the scan repeats until it finds nothing new. */
static void add_by_scan(struct walk *walk)
{
    DIR *proc = opendir("/proc");
    if (!proc)
        return;
    for (size_t before = SIZE_MAX; walk->count != before;) {
        before = walk->count;
        rewinddir(proc);
        for (const struct dirent *entry; (entry = readdir(proc));) {
            pid_t pid;
            if (!parse_pid(view_of(entry->d_name), &pid) || is_found(walk, pid))
                continue;
            pid_t parent = read_parent(pid);
            if (parent == getpid() || (parent != 0 && is_found(walk, parent)))
                walk_add(walk, pid, parent);
        }
    }
    closedir(proc);
}

struct descendants_found descendants_signal_by_scan(int number, const struct spared *spared)
{
    struct walk *walk = walk_begin(spared);
    add_by_scan(walk);
    return signal_all(walk, number);
}

void descendants_spare(struct spared *spared)
{
    struct walk *walk = walk_begin(/* spared */ NULL);
    spared->count = 0;
    if (descendants_dead() < 0)
        return;
    if (!add_children(walk, getpid()))
        add_by_scan(walk);
    for (size_t i = 0; i < walk->count && spared->count < SPARED_MAX; i++)
        if (walk->found[i].parent == getpid())
            spared->children[spared->count++] = walk->found[i].pid;
}

pid_t descendants_dead(void)
{
    siginfo_t info = { .si_pid = 0 };
    int result;
    do
        result = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
    while (result != 0 && errno == EINTR);
    check(result == 0 || errno == ECHILD);
    return result == 0 ? info.si_pid : -1;
}

pid_t descendants_bury(int *ret_wait_status)
{
    pid_t pid;
    do
        pid = waitpid(-1, ret_wait_status, WNOHANG);
    while (pid < 0 && errno == EINTR);
    check(pid >= 0 || errno == ECHILD);
    return pid;
}

static void spare_no_longer(struct spared *spared, pid_t pid)
{
    for (size_t i = 0; i < spared->count; i++)
        if (spared->children[i] == pid) {
            spared->children[i] = spared->children[--spared->count];
            return;
        }
}

pid_t descendants_bury_all(struct spared *spared)
{
    int ignored;
    pid_t pid;
    while ((pid = descendants_bury(&ignored)) > 0)
        spare_no_longer(spared, pid);
    return pid;
}
