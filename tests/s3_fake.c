/* SPDX-License-Identifier: Apache-2.0 */
/* s3_fake.c: starts and stops the fake server of s3_fake.py, and asks it what it has seen. */
#include "s3_fake.h"

#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    pid_t pid;
    FILE *to;
    FILE *from;
    int port;
} fake;

void fake_start(void)
{
    int input[2], output[2];
    const char *folder = getenv("HOLDFAST_TESTS");
    char script[4096];
    assert_non_null(folder);
    snprintf(script, sizeof script, "%s/s3_fake.py", folder);
    assert_int_equal(pipe2(input, O_CLOEXEC), 0);
    assert_int_equal(pipe2(output, O_CLOEXEC), 0);
    fake.pid = fork();
    assert_true(fake.pid >= 0);
    if (fake.pid == 0) {
        dup2(input[0], 0);
        dup2(output[1], 1);
        execlp("python3", "python3", script, (char *)NULL);
        _exit(127);
    }
    close(input[0]);
    close(output[1]);
    fake.to = fdopen(input[1], "w");
    fake.from = fdopen(output[0], "r");
    assert_int_equal(fscanf(fake.from, "port %d", &fake.port), 1);
}

/* Its input ends, and with it the server. */
void fake_stop(void)
{
    int status;
    fclose(fake.to);
    fclose(fake.from);
    assert_int_equal(waitpid(fake.pid, &status, 0), fake.pid);
}

int fake_port(void)
{
    return fake.port;
}

unsigned fake_seen(const char *method, const char *bucket)
{
    unsigned count;
    fprintf(fake.to, "seen %s %s\n", method, bucket);
    fflush(fake.to);
    assert_int_equal(fscanf(fake.from, " %u", &count), 1);
    return count;
}

void fake_reset(void)
{
    char word[8];
    fprintf(fake.to, "reset\n");
    fflush(fake.to);
    assert_int_equal(fscanf(fake.from, " %7s", word), 1);
}

int fake_serve_tls(const char *path)
{
    int port;
    fprintf(fake.to, "tls %s\n", path);
    fflush(fake.to);
    assert_int_equal(fscanf(fake.from, " %d", &port), 1);
    return port;
}

struct store *fake_open(const char *bucket, const char *parameters)
{
    return fake_open_in(env_real(), bucket, parameters);
}

struct store *fake_open_in(struct env *env, const char *bucket, const char *parameters)
{
    char url[512];
    struct store *store = NULL;
    struct hf_error error;
    snprintf(url, sizeof url, "s3://%s?endpoint=http://127.0.0.1:%d%s", bucket, fake.port,
             parameters);
    assert_status(HF_OK, store_open(env, view_of(url), &store, &error), &error);
    return store;
}
