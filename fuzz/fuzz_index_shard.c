/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_index_shard.c: parses arbitrary bytes as the first line of a shard, and as the data
 * after a correct checksum. The blocks of an accepted shard must be adjacent, and each must be
 * found by its first key. */
#include "base/check.h"
#include "base/hash.h"
#include "fuzz.h"
#include "index/shard.h"

#include <inttypes.h>

static void holds(const struct shard_head *head)
{
    uint64_t at = 0;
    for (size_t i = 0; i < head->block_count; i++) {
        const struct shard_block *block = &head->blocks[i];
        check(block->at == at && block->size > 0 && block->size <= SHARD_BLOCK_MAX);
        check(shard_find_block(head, block->first_key) == i);
        at += block->size;
    }
    check(at == head->size && strlen(head->nonce) == NONCE_SIZE);
    check(head->block_count <= SHARD_BLOCKS_MAX && head->records >= head->block_count);
}

static void take(struct view line)
{
    struct shard_head head;
    struct hf_error error = { .why = "" };
    uint64_t size;
    enum hf_status status = shard_line_size(line, &size, &error);
    if (status == HF_OK) {
        check(size > 0 && size <= SHARD_LINE_MAX);
        status = shard_head_read(line, &head, &error);
    }
    if (status == HF_OK) {
        check(head.line_size == line.size);
        holds(&head);
        shard_head_release(&head);
        return;
    }
    check(status == HF_CORRUPT || status == HF_UNSUPPORTED);
    check(error.why[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view bytes = { (const char *)data, size };
    struct buffer text = BUFFER_INIT(2 * MIB);
    take(bytes);
    if (size < MIB) {
        const size_t before = 65;
        buffer_print(&text,
                     "{\"format\":\"" SHARD_FORMAT
                     "\",\"line\":\"%08zu\",\"check\":\"%08" PRIx32 "\"",
                     before + size, crc32c(0, bytes));
        check(text.size == before && buffer_append(&text, bytes));
        take(buffer_view(&text));
    }
    buffer_release(&text);
    return 0;
}
