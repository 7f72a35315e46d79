/* SPDX-License-Identifier: Apache-2.0 */
/* process.c: the memory, processor time and descriptors of this process, from libuv and /proc. */
#include "serve/metrics/metrics_inside.h"

#include <sys/resource.h>
#include <uv.h>

#define DESCRIPTOR_FOLDER "/proc/self/fd"

/* Newer kernels tell the number as the size of the folder; older ones list it. */
static uint64_t count_descriptors(void)
{
    uv_fs_t request;
    uint64_t count = 0;
    if (uv_fs_stat(NULL, &request, DESCRIPTOR_FOLDER, NULL) == 0)
        count = request.statbuf.st_size;
    uv_fs_req_cleanup(&request);
    if (count > 0)
        return count;
    int listed = uv_fs_scandir(NULL, &request, DESCRIPTOR_FOLDER, 0, NULL);
    uv_fs_req_cleanup(&request);
    return listed > 0 ? (uint64_t)listed : 0;
}

static uint64_t timeval_us(uv_timeval_t time)
{
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

struct process_figures process_figures(void)
{
    struct process_figures figures = { .descriptors = count_descriptors() };
    uv_rusage_t usage;
    struct rlimit limit;
    size_t resident = 0;
    if (uv_resident_set_memory(&resident) == 0)
        figures.resident_bytes = resident;
    if (uv_getrusage(&usage) == 0)
        figures.cpu_us = timeval_us(usage.ru_utime) + timeval_us(usage.ru_stime);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        figures.descriptors_max = limit.rlim_cur;
    return figures;
}
