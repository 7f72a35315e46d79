/* SPDX-License-Identifier: Apache-2.0 */
/* process.c: keys that a command prints (credential_process of a profile). The command runs in a
 * process group of its own, of which nothing is left when this file is done with it. What it prints
 * is never shown, because it may be a secret. */
#include "store/remote/secret.h"
#include "store/s3/sources.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_BYTES_MAX (64 * KIB)
#define LINE_BYTES_MAX   4096

/* A command may ask a server on the network, or a person. */
#define PROCESS_TIME_OUT SPAN_S(60)

extern char **environ;

struct command {
    pid_t pid;
    int output; /* our end of its stdout; non-blocking */
    int life;   /* readable once it has ended */
};

/* ---- Starting ------------------------------------------------------------------------ */

/* Its stdin and stderr are empty: the program that uses the library may need its own. */
static bool set_files(posix_spawn_file_actions_t *actions, int output)
{
    return posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) ==
               0 &&
           posix_spawn_file_actions_adddup2(actions, output, STDOUT_FILENO) == 0 &&
           posix_spawn_file_actions_addopen(actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) ==
               0;
}

static bool set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    return posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF) == 0 &&
           posix_spawnattr_setpgroup(attributes, 0) == 0 &&
           posix_spawnattr_setsigmask(attributes, &none) == 0 &&
           posix_spawnattr_setsigdefault(attributes, &all) == 0;
}

static bool spawn_shell(char *line, int output, pid_t *ret_pid)
{
    char name[] = "sh", option[] = "-c";
    char *words[] = { name, option, line, NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    bool started = false;
    if (posix_spawnattr_init(&attributes) == 0) {
        started = set_files(&actions, output) && set_attributes(&attributes) &&
                  posix_spawn(ret_pid, "/bin/sh", &actions, &attributes, words, environ) == 0;
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return started;
}

static bool start_key_command(char *line, struct command *ret_command)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    *ret_command = (struct command){ .output = ends[0], .life = -1 };
    bool started = fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0 &&
                   spawn_shell(line, ends[1], &ret_command->pid);
    close(ends[1]);
    if (started)
        ret_command->life = pidfd_open(ret_command->pid, 0);
    else
        close(ends[0]);
    return started;
}

/* ---- Reading ------------------------------------------------------------------------- */

static bool is_output_full(const struct buffer *text)
{
    return text->size + 1 >= text->capacity;
}

/* Reads what is there. False at the end of the output, and if it is too long. */
static bool read_output(const struct command *command, struct buffer *text)
{
    while (!is_output_full(text)) {
        ssize_t got =
            read(command->output, text->data + text->size, text->capacity - text->size - 1);
        if (got <= 0)
            return got < 0 && (errno == EAGAIN || errno == EINTR);
        text->size += (size_t)got;
    }
    return false;
}

/* Until the command has ended, even if a process that it left behind keeps its stdout open. False
 * if it did not end in time, or printed too much. */
static bool await_end(struct env *env, const struct command *command, struct mono_time deadline,
                      struct buffer *text)
{
    bool open = true;
    for (;;) {
        struct span left = mono_since(deadline, env_now(env));
        if (left.us <= 0 || command->life < 0)
            return false;
        struct pollfd files[] = { { command->life, POLLIN, 0 },
                                  { open ? command->output : -1, POLLIN, 0 } };
        if (poll(files, 2, (int)(left.us / 1000) + 1) < 0 && errno != EINTR)
            return false;
        if (open)
            open = read_output(command, text);
        if (is_output_full(text))
            return false;
        if (files[0].revents)
            return true;
    }
}

/* The exit status, or -1 if it is not known. Until the command is reaped, no other group can have
 * its number. */
static int end_command(const struct command *command)
{
    int status;
    pid_t got;
    kill(-command->pid, SIGKILL);
    do
        got = waitpid(command->pid, &status, 0);
    while (got < 0 && errno == EINTR);
    close(command->output);
    if (command->life >= 0)
        close(command->life);
    return got == command->pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static enum hf_status run_command(struct provider *cache, char *line, struct buffer *text,
                                  struct hf_error *error)
{
    struct command command;
    struct mono_time deadline = mono_add(env_now(cache->env), PROCESS_TIME_OUT);
    if (mono_before(cache->deadline, deadline))
        deadline = cache->deadline;
    if (!start_key_command(line, &command))
        return error_set(error, HF_UNAVAILABLE, "the command cannot be started");
    bool in_time = await_end(cache->env, &command, deadline, text);
    int status = end_command(&command);
    if (!in_time)
        return is_output_full(text)
                   ? error_set(error, HF_INVALID, "the command prints too much")
                   : error_set(error, HF_UNAVAILABLE, "the command did not end in time");
    /* A program that ignores SIGCHLD never learns the status of its children. */
    if (status > 0 || (status < 0 && text->size == 0))
        return error_set(error, HF_DENIED,
                         "the command failed (exit status %d): run it by itself to see why",
                         status);
    return error_clear(error);
}

enum hf_status s3_keys_of_process(struct s3_provider *provider, struct view line,
                                  struct s3_credentials *ret_credentials,
                                  struct hf_error *error)
{
    struct provider *cache = &provider->cache;
    struct buffer text = BUFFER_INIT(OUTPUT_BYTES_MAX);
    char command[LINE_BYTES_MAX];
    if (line.size >= sizeof command)
        return error_set(error, HF_INVALID, "credential_process is longer than %d bytes",
                         LINE_BYTES_MAX - 1);
    snprintf(command, sizeof command, "%.*s", VIEW_ARGS(line));
    /* All room is reserved at once: growing the buffer would leave copies of the secret. */
    if (!buffer_reserve(&text, OUTPUT_BYTES_MAX - 1))
        return error_no_memory(error);
    if (run_command(cache, command, &text, error) == HF_OK)
        s3_credentials_from_process(buffer_view(&text), ret_credentials, error);
    /* The command's keys expire by the clock of this machine. */
    cache->answered = env_now(cache->env);
    cache->date = env_wall(cache->env);
    if (error->status != HF_OK)
        error_prefix(error, "credential_process");
    secret_buffer_release(&text);
    return error->status;
}
