/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: holdfast-parquet REQUEST REPORT: reads a request from one file, does its work with
 * DuckDB, and writes the report to another. The library starts it (src/merge/parquet.c). If it
 * crashes, is killed or runs out of memory, the library lives on and knows which files were
 * being read. */
#include "base/sanitizer.h"
#include "parquet/work.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

/* DuckDB's own limit covers most of its memory, but not all: decoders, vectors and stacks are not
 * counted. Beyond this, allocations fail. Address space that is only reserved does not count. */
#define MEMORY_BESIDE (1024 * MIB)

/* Every input is open twice: here, and in DuckDB. */
#define FILES_BESIDE 64

static void lower_limits(const struct parquet_request *request)
{
    const rlim_t most = 2 * request->memory_bytes + MEMORY_BESIDE;
    struct rlimit files, data;
    /* A sanitizer reserves terabytes that would count. */
    if (!WITH_ASAN && !WITH_TSAN && getrlimit(RLIMIT_DATA, &data) == 0 &&
        (data.rlim_cur == RLIM_INFINITY || data.rlim_cur > most)) {
        data.rlim_cur = data.rlim_max = most;
        (void)setrlimit(RLIMIT_DATA, &data);
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        files.rlim_cur < 2 * request->input_count + FILES_BESIDE) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

static bool read_request(const char *path, struct arena *arena,
                         struct parquet_request *ret_request)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0 || info.st_size > (off_t)PARQUET_REQUEST_MAX)
        return false;
    size_t size = (size_t)info.st_size, got = 0;
    char *bytes = arena_take(arena, size + 1);
    ssize_t part = 1;
    while (bytes && got < size && part > 0) {
        part = read(fd, bytes + got, size - got);
        got += part > 0 ? (size_t)part : 0;
    }
    close(fd);
    return bytes && got == size &&
           parquet_request_read((struct view){ bytes, size }, arena, ret_request);
}

/* If this fails, there is no valid report, which is failure enough. */
static void write_report(const char *path, const struct parquet_report *report)
{
    struct buffer text = BUFFER_INIT(PARQUET_REPORT_MAX);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && parquet_report_write(report, &text))
        (void)!write(fd, text.data, text.size);
    if (fd >= 0)
        close(fd);
    buffer_release(&text);
}

static enum hf_status do_work(struct engine *engine, const struct parquet_request *request,
                              struct parquet_report *report, struct hf_error *error)
{
    enum hf_status status = engine_open(engine, request, error);
    if (status != HF_OK)
        return status;
    report->version = engine->duckdb.library_version();
    switch ((enum parquet_work)request->work) {
    case PARQUET_SURVEY: status = work_survey(engine, report, error); break;
    case PARQUET_MERGE: status = work_merge(engine, report, error); break;
    case PARQUET_CONVERT: status = work_convert(engine, report, error); break;
    case PARQUET_PROBE:
    case PARQUET_WORK_COUNT: break;
    }
    report->overload = engine->overload;
    report->disk_full = engine->disk_full;
    return status;
}

/* It ends without freeing the database: the process is gone a moment later. */
int main(int count, char **words)
{
    static struct engine engine;
    struct arena arena = ARENA_INIT;
    struct parquet_request request;
    struct parquet_report report = { 0 };
    struct hf_error error = { .why = "" };
    if (count != 3) {
        fputs("holdfast-parquet is started by holdfast; it takes no options of its own\n",
              stderr);
        return 2;
    }
    /* The library that wrote it is of another version. A missing report says so, and blames nobody;
     * a failed process would blame its inputs. */
    if (!read_request(words[1], &arena, &request))
        _exit(0);
    lower_limits(&request);
    setenv("TZ", "UTC", 1); /* times with a zone are written in UTC */
    report.status = do_work(&engine, &request, &report, &error);
    report.why = report.status == HF_OK ? "" : error.why;
    write_report(words[2], &report);
    _exit(0);
}
