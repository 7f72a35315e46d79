/* SPDX-License-Identifier: Apache-2.0 */
/* crash_trace.c: runs a child under ptrace, stops it at each system call, and records its
 * changes to a directory. */
#include "crash_trace.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define THREADS_MAX  64
#define MARK_COMMAND 0x48464d4b

/* ---- Marks --------------------------------------------------------------------------- */

void trace_mark(int value)
{
    syscall(SYS_fcntl, -1, MARK_COMMAND, value);
}

bool trace_is_mark(const struct trace_stop *stop, int *ret_value)
{
    if (!stop->entry || stop->call != SYS_fcntl || (int)stop->arguments[0] != -1 ||
        (int)stop->arguments[1] != MARK_COMMAND)
        return false;
    *ret_value = (int)stop->arguments[2];
    return true;
}

/* ---- The child ----------------------------------------------------------------------- */

struct threads {
    struct trace_stop last[THREADS_MAX]; /* the call that each thread is in */
    size_t count;
};

static struct trace_stop *thread_of(struct threads *threads, pid_t pid)
{
    for (size_t i = 0; i < threads->count; i++)
        if (threads->last[i].pid == pid)
            return &threads->last[i];
    check(threads->count < THREADS_MAX);
    threads->last[threads->count] = (struct trace_stop){ .pid = pid };
    return &threads->last[threads->count++];
}

/* Which call a stopped thread is in, and on which side of it. */
static const struct trace_stop *read_stop(struct threads *threads, pid_t pid)
{
    struct trace_stop *stop = thread_of(threads, pid);
    struct __ptrace_syscall_info info;
    long size = ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof info, &info);
    check(size > 0);
    stop->entry = info.op == PTRACE_SYSCALL_INFO_ENTRY;
    if (stop->entry) {
        stop->call = info.entry.nr;
        for (int i = 0; i < 6; i++)
            stop->arguments[i] = info.entry.args[i];
    } else {
        stop->result = info.exit.rval;
    }
    return stop;
}

static pid_t start_child(const struct tracer *tracer)
{
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        check(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
        raise(SIGSTOP);
        tracer->child(tracer->argument);
        _exit(0);
    }
    int status;
    check(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
    check(ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)options) == 0);
    check(ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0);
    return pid;
}

/* The end of its first thread is reported only after the others were waited for. */
static void kill_child(pid_t pid)
{
    int status;
    pid_t ended;
    kill(pid, SIGKILL);
    do {
        ended = waitpid(-1, &status, __WALL);
        check(ended > 0 || errno == EINTR);
    } while (ended != pid || WIFSTOPPED(status));
}

/* The signal to go on with: none for stops that ptrace itself made. */
static int signal_of(int status)
{
    int number = WSTOPSIG(status);
    bool own = number == (SIGTRAP | 0x80) || number == SIGTRAP || number == SIGSTOP;
    return own ? 0 : number;
}

bool trace_run(const struct tracer *tracer)
{
    struct threads threads = { .count = 0 };
    pid_t child = start_child(tracer);
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, __WALL);
        check(pid > 0);
        if (!WIFSTOPPED(status)) {
            if (pid == child)
                return WIFEXITED(status) && WEXITSTATUS(status) == 0;
            continue;
        }
        if (WSTOPSIG(status) == (SIGTRAP | 0x80) &&
            !tracer->stop(tracer->argument, read_stop(&threads, pid))) {
            kill_child(child);
            return false;
        }
        ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(long)signal_of(status));
    }
}

/* ---- Where a call points to ---------------------------------------------------------- */

static void fd_path(pid_t pid, uint64_t fd, char path[64])
{
    snprintf(path, 64, "/proc/%d/fd/%d", (int)pid, (int)fd);
}

static int node_of_fd(const struct record *record, pid_t pid, uint64_t fd,
                      struct stat *ret_stat)
{
    char path[64];
    fd_path(pid, fd, path);
    return stat(path, ret_stat) == 0 ? model_find(record->live, ret_stat->st_ino) : -1;
}

static bool read_text(pid_t pid, uint64_t address, char *text, size_t size)
{
    size_t got = 0;
    while (got < size) {
        /* Not past the page: the next one may not be there. */
        size_t part = 4096 - (size_t)((address + got) % 4096);
        struct iovec local = { text + got, part < size - got ? part : size - got };
        struct iovec remote = { (void *)(uintptr_t)(address + got), local.iov_len };
        ssize_t done = process_vm_readv(pid, &local, 1, &remote, 1, 0);
        if (done <= 0)
            return false;
        if (memchr(text + got, 0, (size_t)done))
            return true;
        got += (size_t)done;
    }
    return false;
}

/* A name as a call gives it: the folder's node and the last part. */
struct place {
    int folder; /* -1: outside of what is modelled */
    char name[MODEL_NAME_SIZE];
};

static struct place read_place(const struct record *record, pid_t pid, uint64_t at,
                               uint64_t address)
{
    struct place place = { .folder = -1 };
    char path[4096];
    char folder[4200];
    struct stat st;
    if (!read_text(pid, address, path, sizeof path))
        return place;
    char *slash = strrchr(path, '/');
    snprintf(place.name, sizeof place.name, "%.255s", slash ? slash + 1 : path);
    if (slash)
        *slash = '\0';
    const char *above = !slash ? "." : (slash == path ? "/" : path);
    if (path[0] == '/' || (int)at == AT_FDCWD)
        snprintf(folder, sizeof folder, "%s", above);
    else
        snprintf(folder, sizeof folder, "/proc/%d/fd/%d/%s", (int)pid, (int)at, above);
    if (stat(folder, &st) == 0)
        place.folder = model_find(record->live, st.st_ino);
    return place;
}

/* ---- What a call changed ------------------------------------------------------------- */

/* All that was written is in the file by now: it is read back from there. */
static void record_write(struct record *record, const struct trace_stop *stop, uint64_t fd,
                         int64_t offset)
{
    struct stat st;
    char path[64];
    int node = node_of_fd(record, stop->pid, fd, &st);
    if (node < 0 || stop->result <= 0)
        return;
    fd_path(stop->pid, fd, path);
    struct change change = { .kind = CHANGE_WRITE,
                             .node = node,
                             .offset = (uint64_t)offset,
                             .size = (size_t)stop->result,
                             .modified = st.st_mtim };
    change.data = malloc(change.size);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    check(file >= 0 && change.data);
    check(pread(file, change.data, change.size, offset) == (ssize_t)change.size);
    close(file);
    record_add(record, &change);
    free(change.data);
}

/* The file's own position, which a write has moved behind what it wrote. */
static int64_t offset_before(const struct trace_stop *stop, uint64_t fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)stop->pid, (int)fd);
    FILE *file = fopen(path, "re");
    int64_t position = 0;
    check(file && fscanf(file, "pos: %" SCNd64, &position) == 1);
    fclose(file);
    return position - stop->result;
}

/* copy_file_range: the place in the target is in the child's memory, moved on already. */
static int64_t copied_to(const struct trace_stop *stop)
{
    int64_t after = 0;
    struct iovec local = { &after, sizeof after };
    struct iovec remote = { (void *)(uintptr_t)stop->arguments[3], sizeof after };
    if (stop->arguments[3] == 0)
        return offset_before(stop, stop->arguments[2]);
    check(process_vm_readv(stop->pid, &local, 1, &remote, 1, 0) == sizeof after);
    return after - stop->result;
}

static void record_size(struct record *record, const struct trace_stop *stop)
{
    struct stat st;
    int node = node_of_fd(record, stop->pid, stop->arguments[0], &st);
    struct change change = { .kind = CHANGE_TRUNCATE,
                             .node = node,
                             .offset = (uint64_t)st.st_size,
                             .modified = st.st_mtim };
    if (node >= 0 && record->live->nodes[node].size != (size_t)st.st_size)
        record_add(record, &change);
}

static void record_attribute(struct record *record, const struct trace_stop *stop)
{
    struct stat st;
    char path[64];
    char value[128];
    int node = node_of_fd(record, stop->pid, stop->arguments[0], &st);
    if (node < 0)
        return;
    fd_path(stop->pid, stop->arguments[0], path);
    ssize_t size = getxattr(path, MODEL_ATTRIBUTE, value, sizeof value);
    struct change change = {
        .kind = CHANGE_ATTRIBUTE, .node = node, .data = value, .size = (size_t)size
    };
    if (size > 0)
        record_add(record, &change);
}

static void record_name(struct record *record, const struct place *place, int target)
{
    struct change change = { .kind = CHANGE_NAME, .node = place->folder, .target = target };
    memcpy(change.name, place->name, sizeof change.name);
    record_add(record, &change);
}

static bool is_shared_memory(const char *name)
{
    size_t size = strlen(name);
    return size >= 4 && strcmp(name + size - 4, "-shm") == 0;
}

static void record_open(struct record *record, const struct trace_stop *stop, uint64_t at,
                        uint64_t path, uint64_t flags)
{
    struct stat st;
    char opened[64];
    if (!(flags & (O_CREAT | O_TRUNC)))
        return;
    struct place place = read_place(record, stop->pid, at, path);
    if (place.folder < 0 || is_shared_memory(place.name))
        return;
    int node = model_lookup(record->live, place.folder, place.name);
    fd_path(stop->pid, (uint64_t)stop->result, opened);
    check(stat(opened, &st) == 0);
    if (node < 0)
        record_name(record, &place, record_node(record, /* folder */ false, st.st_ino));
    else if (flags & O_TRUNC && record->live->nodes[node].size > 0)
        record_add(record, &(struct change){ .kind = CHANGE_TRUNCATE, .node = node });
}

static void record_mkdir(struct record *record, const struct trace_stop *stop, uint64_t at,
                         uint64_t path)
{
    struct place place = read_place(record, stop->pid, at, path);
    char made[4400];
    char above[64];
    char text[4096];
    struct stat st;
    if (place.folder < 0 || !read_text(stop->pid, path, text, sizeof text))
        return;
    fd_path(stop->pid, at, above);
    if (text[0] == '/' || (int)at == AT_FDCWD)
        snprintf(made, sizeof made, "%s", text);
    else
        snprintf(made, sizeof made, "%s/%s", above, text);
    check(stat(made, &st) == 0);
    record_name(record, &place, record_node(record, /* folder */ true, st.st_ino));
}

static void record_rename(struct record *record, const struct place *from,
                          const struct place *to, uint64_t flags)
{
    check(from->folder >= 0 && to->folder >= 0);
    int moved = model_lookup(record->live, from->folder, from->name);
    int old = model_lookup(record->live, to->folder, to->name);
    check(moved >= 0);
    if (from->folder == to->folder && !(flags & RENAME_EXCHANGE)) {
        struct change change = { .kind = CHANGE_RENAME, .node = from->folder, .target = moved };
        memcpy(change.name, from->name, sizeof change.name);
        memcpy(change.name2, to->name, sizeof change.name2);
        record_add(record, &change);
        return;
    }
    record_name(record, to, moved);
    record_name(record, from, flags & RENAME_EXCHANGE ? old : -1);
}

static void record_unlink(struct record *record, struct place place)
{
    if (place.folder >= 0)
        record_name(record, &place, -1);
}

static void record_link(struct record *record, const struct place *from, const struct place *to)
{
    if (to->folder >= 0 && from->folder >= 0)
        record_name(record, to, model_lookup(record->live, from->folder, from->name));
}

static void record_sync(struct record *record, const struct trace_stop *stop)
{
    struct stat st;
    int node = node_of_fd(record, stop->pid, stop->arguments[0], &st);
    if (node >= 0)
        record_add(record, &(struct change){ .kind = CHANGE_SYNC, .node = node });
}

/* ---- Which call it was --------------------------------------------------------------- */

#define PLACE(at, path) read_place(record, stop->pid, (at), (path))

/* Calls that only older machines have. True when it was one of them. */
static bool record_old_call(struct record *record, const struct trace_stop *stop)
{
    const uint64_t *a = stop->arguments;
    uint64_t here = (uint64_t)AT_FDCWD;
    switch (stop->call) {
#ifdef SYS_open
    case SYS_open: record_open(record, stop, here, a[0], a[1]); return true;
    case SYS_mkdir: record_mkdir(record, stop, here, a[0]); return true;
    case SYS_unlink:
    case SYS_rmdir: record_unlink(record, PLACE(here, a[0])); return true;
    case SYS_link: {
        struct place from = PLACE(here, a[0]), to = PLACE(here, a[1]);
        record_link(record, &from, &to);
        return true;
    }
    case SYS_rename: {
        struct place from = PLACE(here, a[0]), to = PLACE(here, a[1]);
        record_rename(record, &from, &to, 0);
        return true;
    }
#endif
    default: (void)record, (void)a, (void)here; return false;
    }
}

static bool record_name_call(struct record *record, const struct trace_stop *stop)
{
    const uint64_t *a = stop->arguments;
    struct place from;
    struct place to;
    switch (stop->call) {
    case SYS_openat: record_open(record, stop, a[0], a[1], a[2]); return true;
    case SYS_mkdirat: record_mkdir(record, stop, a[0], a[1]); return true;
    case SYS_unlinkat: record_unlink(record, PLACE(a[0], a[1])); return true;
    case SYS_renameat:
    case SYS_renameat2:
        from = PLACE(a[0], a[1]);
        to = PLACE(a[2], a[3]);
        record_rename(record, &from, &to, stop->call == SYS_renameat2 ? a[4] : 0);
        return true;
    case SYS_linkat:
        from = PLACE(a[0], a[1]);
        to = PLACE(a[2], a[3]);
        record_link(record, &from, &to);
        return true;
    default: return record_old_call(record, stop);
    }
}

void trace_record(struct record *record, const struct trace_stop *stop)
{
    const uint64_t *a = stop->arguments;
    if (stop->entry || stop->result < 0)
        return;
    switch (stop->call) {
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_pwritev2: record_write(record, stop, a[0], (int64_t)a[3]); break;
    case SYS_write:
    case SYS_writev: {
        struct stat st;
        if (stop->result > 0 && node_of_fd(record, stop->pid, a[0], &st) >= 0)
            record_write(record, stop, a[0], offset_before(stop, a[0]));
        break;
    }
    case SYS_sendfile: check_unreachable(); break;
    case SYS_copy_file_range: record_write(record, stop, a[2], copied_to(stop)); break;
    case SYS_ftruncate:
    case SYS_fallocate: record_size(record, stop); break;
    case SYS_fsetxattr: record_attribute(record, stop); break;
    case SYS_fsync:
    case SYS_fdatasync: record_sync(record, stop); break;
    case SYS_sync:
    case SYS_syncfs: record_add(record, &(struct change){ .kind = CHANGE_SYNC_ALL }); break;
    default: record_name_call(record, stop); break;
    }
}
