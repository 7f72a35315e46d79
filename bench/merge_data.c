/* SPDX-License-Identifier: Apache-2.0 */
/* merge_data.c: generates files of records to merge from their numbers, and the output that
 * merging them must give. */
#include "merge_data.h"

#include "place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- Records ------------------------------------------------------------------------- */

#define BLOCK_RECORDS 20
#define BLOCK_KEYS    16
#define RECORD_MAX    400

/* The records of a block: which of its keys each has, which version of it, and whether that is
 * the last. */
static const struct {
    uint8_t key, version;
    bool last;
} block[BLOCK_RECORDS] = {
    { 0, 0, true },   { 1, 0, true },  { 2, 0, false }, { 2, 1, true },  { 3, 0, true },
    { 4, 0, true },   { 5, 0, true },  { 6, 0, false }, { 6, 1, false }, { 6, 2, true },
    { 7, 0, true },   { 8, 0, true },  { 9, 0, true },  { 10, 0, true }, { 11, 0, true },
    { 12, 0, false }, { 12, 1, true }, { 13, 0, true }, { 14, 0, true }, { 15, 0, true },
};

/* How the parts of a record are joined, and how a quote is spelt within one. */
static const struct format {
    const char *header, *start, *region, *at, *body, *end, *quote;
    unsigned body_size; /* of the shortest */
} formats[] = {
    [DATA_USV] = { "", "", "\x1f", "\x1f", "\x1f", "\n", "\"", 32 },
    [DATA_NDJSON] = { "", "{\"id\":\"", "\",\"region\":\"", "\",\"at\":\"", "\",\"body\":\"",
                      "\"}\n", "\\\"", 23 },
    [DATA_CSV] = { "\"id\",\"region\",\"at\",\"body\"\n", "\"", "\",\"", "\",\"", "\",\"",
                   "\"\n", "\"\"", 23 },
};

/* A pseudo-random number that depends only on another number. */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static char *put_text(char *to, const char *text)
{
    size_t size = strlen(text);
    memcpy(to, text, size);
    return to + size;
}

static char *put_number(char *to, uint64_t value, int digits)
{
    for (int i = digits - 1; i >= 0; i--, value /= 10)
        to[i] = (char)('0' + value % 10);
    return to + digits;
}

/* "2026-03-14T09:26:53.589793Z". */
static char *put_time(char *to, uint64_t us)
{
    time_t seconds = (time_t)(us / 1000000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    to = put_number(to, 1900 + (uint64_t)tm.tm_year, 4);
    *to++ = '-';
    to = put_number(to, 1 + (uint64_t)tm.tm_mon, 2);
    *to++ = '-';
    to = put_number(to, (uint64_t)tm.tm_mday, 2);
    *to++ = 'T';
    to = put_number(to, (uint64_t)tm.tm_hour, 2);
    *to++ = ':';
    to = put_number(to, (uint64_t)tm.tm_min, 2);
    *to++ = ':';
    to = put_number(to, (uint64_t)tm.tm_sec, 2);
    *to++ = '.';
    to = put_number(to, us % 1000000, 6);
    *to++ = 'Z';
    return to;
}

/* A later version never has an earlier time; if the times are equal, it compares greater
 * bytewise. */
static uint64_t time_us(uint64_t key, unsigned version)
{
    static const uint64_t start = UINT64_C(1767225600) * 1000000; /* 2026 */
    static const uint64_t day = UINT64_C(86400) * 1000000;
    uint64_t us = start + mix(key ^ 1) % (180 * day);
    uint64_t step = mix(key ^ 2);
    return step % 16 == 0 ? us : us + version * (step % (30 * day));
}

static char *put_body(char *to, const struct format *format, uint64_t seed, unsigned version)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789, ";
    unsigned size = format->body_size + (unsigned)(seed % 17);
    uint64_t bits = 0;
    to = put_text(to, "rev ");
    to = put_number(to, version, 2);
    *to++ = ' ';
    if (seed % 16 == 5)
        to = put_text(to, format->quote);
    for (unsigned i = 0; i < size; i++, bits >>= 6) {
        if (i % 10 == 0)
            bits = seed = mix(seed);
        *to++ = letters[bits & 63];
    }
    return to;
}

static size_t put_record(char *to, const struct format *format, uint64_t number)
{
    static const char *const regions[] = { "eu-west-1",  "eu-north-1", "us-east-1",
                                           "us-west-2",  "sa-east-1",  "ap-southeast-2",
                                           "me-south-1", "home" };
    uint64_t key = number / BLOCK_RECORDS * BLOCK_KEYS + block[number % BLOCK_RECORDS].key;
    unsigned version = block[number % BLOCK_RECORDS].version;
    char *start = to;
    to = put_text(to, format->start);
    to = put_text(to, "user-");
    to = put_number(to, key * 200 + mix(key) % 200, 9);
    to = put_text(to, format->region);
    to = put_text(to, regions[mix(key) >> 61]);
    to = put_text(to, format->at);
    to = put_time(to, time_us(key, version));
    to = put_text(to, format->body);
    to = put_body(to, format, mix(~number), version);
    to = put_text(to, format->end);
    return (size_t)(to - start);
}

/* ---- Files --------------------------------------------------------------------------- */

struct writer {
    const struct format *format;
    FILE *files[DATA_FILES];
    FILE *expected;
};

static FILE *create(const struct format *format, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        bench_die("%s: %s", path, strerror(errno));
    fputs(format->header, file);
    return file;
}

static void finish(FILE *file)
{
    if (fflush(file) != 0 || fsync(fileno(file)) != 0 || fclose(file) != 0)
        bench_die("the data cannot be written: %s", strerror(errno));
}

static void write_record(const struct writer *writer, uint64_t number, FILE *file)
{
    char record[RECORD_MAX];
    fwrite(record, 1, put_record(record, writer->format, number), file);
}

/* In the order of keys and versions. One in eight records that supersede another goes into the
 * same file. */
static void write_sorted(const struct writer *writer, uint64_t records)
{
    uint64_t file = 0;
    for (uint64_t i = 0; i < records; i++) {
        uint64_t random = mix(i ^ UINT64_C(0xf11e));
        if (block[i % BLOCK_RECORDS].version == 0 || random >> 61 != 0)
            file = random % DATA_FILES;
        write_record(writer, i, writer->files[file]);
    }
}

static void write_shuffled(const struct writer *writer, uint64_t records)
{
    uint32_t *order = malloc(records * sizeof *order);
    if (!order)
        bench_die("no memory");
    for (uint64_t i = 0; i < records; i++) {
        uint64_t j = mix(i ^ UINT64_C(0x5eed)) % (i + 1);
        order[i] = order[j];
        order[j] = (uint32_t)i;
    }
    for (uint64_t i = 0; i < records; i++)
        write_record(writer, order[i], writer->files[i % DATA_FILES]);
    free(order);
}

static void write_expected(const struct writer *writer, uint64_t records)
{
    for (uint64_t i = 0; i < records; i++)
        if (block[i % BLOCK_RECORDS].last)
            write_record(writer, i, writer->expected);
}

static void file_path(const struct merge_data *data, size_t i, char path[700])
{
    snprintf(path, 700, "%s/in/%02zu", data->folder, i);
}

static void write_files(const struct merge_data *data, const struct format *format,
                        uint64_t records, bool shuffled)
{
    struct writer writer = { .format = format };
    char path[700];
    for (size_t i = 0; i < DATA_FILES; i++) {
        file_path(data, i, path);
        writer.files[i] = create(format, path);
    }
    snprintf(path, sizeof path, "%s/expected", data->folder);
    writer.expected = create(format, path);
    if (shuffled)
        write_shuffled(&writer, records);
    else
        write_sorted(&writer, records);
    write_expected(&writer, records);
    for (size_t i = 0; i < DATA_FILES; i++)
        finish(writer.files[i]);
    finish(writer.expected);
}

static void make_folders(const struct merge_data *data)
{
    char path[700];
    snprintf(path, sizeof path, "%s/in", data->folder);
    if (mkdir(data->folder, 0700) != 0 || mkdir(path, 0700) != 0)
        bench_die("%s: %s", path, strerror(errno));
}

static uint64_t size_of_files(const struct merge_data *data)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < DATA_FILES; i++) {
        struct stat st;
        char path[700];
        file_path(data, i, path);
        if (stat(path, &st) != 0)
            bench_die("%s: %s", path, strerror(errno));
        bytes += (uint64_t)st.st_size;
    }
    return bytes;
}

/* A child writes the files. Otherwise this process's memory would show in the figures of all
 * programs that it runs later. */
void data_make(struct merge_data *data, enum data_format format, uint64_t records,
               bool shuffled)
{
    static unsigned count;
    int status;
    if (records % BLOCK_RECORDS != 0)
        bench_die("records come by %d", BLOCK_RECORDS);
    snprintf(data->folder, sizeof data->folder, "%s/data-%u", bench_folder(), count++);
    make_folders(data);
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (pid == 0) {
        write_files(data, &formats[format], records, shuffled);
        _exit(0);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0)
        bench_die("the data could not be made");
    data->bytes = size_of_files(data);
}

void data_remove(const struct merge_data *data)
{
    remove_tree(data->folder);
}
