/* SPDX-License-Identifier: Apache-2.0 */
/* adopt_manifest.c: reads a manifest into memory. A line with a mistake is reported with its
 * number, and nothing of the manifest is used: half of one would make objects look undescribed. */
#include "compact/work/adopt_manifest.h"

#include "base/map.h"
#include "base/members.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define NUMBER_MAX ((uint64_t)INT64_MAX)
#define MS_MAX     (UINT64_C(1) << 53)

/* One line. */
struct described {
    struct view key;
    struct adopt_facts facts;
    bool listed;
};

struct adopt_manifest {
    struct arena arena;
    struct map objects;
};

static bool take_described_rows(struct member_reader *members, void *part)
{
    struct described *described = part;
    described->facts.rows_known = true;
    return json_take_u64(members->json, NUMBER_MAX, &described->facts.rows);
}

static const struct member described_members[] = {
    MEMBER(described, "key", MEMBER_TEXT, key, KEY_BYTES_MAX, MEMBER_NEEDED),
    MEMBER(described, "etag", MEMBER_TEXT, facts.etag, ETAG_BYTES_MAX, MEMBER_NEEDED),
    MEMBER(described, "size", MEMBER_U64, facts.size, OBJECT_BYTES_MAX, MEMBER_NEEDED),
    MEMBER_BY("rows", take_described_rows, MEMBER_OPTIONAL),
    MEMBER(described, "min", MEMBER_I64, facts.min_ms, MS_MAX, MEMBER_NEEDED),
    MEMBER(described, "max", MEMBER_I64, facts.max_ms, MS_MAX, MEMBER_NEEDED),
    MEMBER(described, "crc32c", MEMBER_U32, facts.crc32c, UINT32_MAX, MEMBER_NEEDED),
};
static const struct member_table described_table =
    MEMBER_TABLE(described_members,
                 "a member is missing: key, etag, size, min, max and crc32c are required");

/* Returns what is wrong with a line, or NULL. */
static const char *read_line(struct adopt_manifest *manifest, struct view line)
{
    struct view text = arena_copy(&manifest->arena, line);
    char *room = arena_take(&manifest->arena, line.size + 1);
    struct described *described = arena_take(&manifest->arena, sizeof *described);
    if (!text.data || !room || !described)
        return "out of memory";
    struct buffer space = { .data = room, .capacity = line.size + 1, .max = line.size };
    struct json_reader json = json_read(text);
    struct member_reader members = { &json, &space, NULL, NULL };
    *described = (struct described){ .key = VIEW("") };
    if (!members_read(&members, &described_table, described) || !json_end(&json))
        return json.why ? json.why : "not a JSON object";
    if (described->key.size == 0 || described->facts.etag.size == 0)
        return "the key or the ETag is empty";
    if (described->facts.min_ms > described->facts.max_ms)
        return "max is before min";
    void *old;
    if (manifest->objects.count == MANIFEST_OBJECTS_MAX)
        return "the manifest has too many lines";
    if (map_get(&manifest->objects, described->key))
        return "the object was described before";
    return map_put(&manifest->objects, described->key, described, &old) ? NULL
                                                                        : "out of memory";
}

/* Reads the next line, without its end. False: there is none. A line that does not fit is cut after
 * one byte more than its limit. */
static bool next_line(FILE *file, char text[MANIFEST_LINE_MAX + 1], struct view *ret_line)
{
    size_t size = 0;
    int byte = EOF;
    while (size <= MANIFEST_LINE_MAX && (byte = getc(file)) != EOF && byte != '\n')
        text[size++] = (char)byte;
    bool any = size > 0 || byte != EOF;
    if (size > 0 && text[size - 1] == '\r')
        size--;
    *ret_line = (struct view){ text, size };
    return any;
}

static enum hf_status read_lines(struct adopt_manifest *manifest, FILE *file,
                                 struct hf_error *error)
{
    char *text = malloc(MANIFEST_LINE_MAX + 1);
    struct view line;
    size_t number = 0;
    uint64_t bytes = 0;
    const char *why = NULL;
    if (!text)
        return error_no_memory(error);
    while (!why && next_line(file, text, &line)) {
        number++;
        bytes += line.size + 1;
        if (line.size > MANIFEST_LINE_MAX)
            why = "the line is too long";
        else if (bytes > MANIFEST_BYTES_MAX)
            why = "the manifest is too long";
        else if (line.size > 0)
            why = read_line(manifest, line);
    }
    free(text);
    if (why)
        return error_set(error, HF_INVALID, "line %zu: %s", number, why);
    return ferror(file) ? error_from_errno(error, errno, "read the manifest") : HF_OK;
}

enum hf_status adopt_manifest_read(const char *path, struct adopt_manifest **ret_manifest,
                                   struct hf_error *error)
{
    struct adopt_manifest *manifest = calloc(1, sizeof *manifest);
    if (!manifest)
        return error_no_memory(error);
    manifest->arena = ARENA_INIT;
    manifest->objects = MAP_INIT;
    FILE *file = fopen(path, "re");
    enum hf_status status =
        file ? read_lines(manifest, file, error) : error_cannot_open(error, errno, path);
    if (file && status != HF_OK)
        error_about(error, path);
    if (file)
        fclose(file);
    if (status == HF_OK)
        *ret_manifest = manifest;
    else
        adopt_manifest_free(manifest);
    return status;
}

void adopt_manifest_free(struct adopt_manifest *manifest)
{
    if (!manifest)
        return;
    map_release(&manifest->objects);
    arena_release(&manifest->arena);
    free(manifest);
}

bool adopt_manifest_describe(const struct adopt_manifest *manifest, struct view key,
                             struct adopt_facts *ret_facts)
{
    const struct described *described = map_get(&manifest->objects, key);
    if (described)
        *ret_facts = described->facts;
    return described != NULL;
}

void adopt_manifest_listed(struct adopt_manifest *manifest, struct view key)
{
    struct described *described = map_get(&manifest->objects, key);
    if (described)
        described->listed = true;
}

uint64_t adopt_manifest_unlisted(const struct adopt_manifest *manifest, struct view *ret_first)
{
    const struct described *each = map_seek(&manifest->objects, VIEW(""), /* beyond */ false);
    uint64_t count = 0;
    while (each) {
        if (!each->listed && count++ == 0)
            *ret_first = each->key;
        each = map_seek(&manifest->objects, each->key, /* beyond */ true);
    }
    return count;
}
