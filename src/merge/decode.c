/* SPDX-License-Identifier: Apache-2.0 */
/* decode.c: reads files and decompresses them, within the memory budget of the merge. Damaged or
 * truncated data is an error and is never taken for the end of the input. Plain files are read
 * directly into the caller's buffer. */
#define ZLIB_CONST /* makes zlib's input const */

#include "base/check.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/parse.h"
#include "merge/codec.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define INPUT_BYTES (64 * KIB)

/* According to zlib: a window of 32 KiB, and about 7 KiB of small objects. */
#define GZIP_BYTES (40 * KIB)

/* Bytes at the start of a zstd frame that determine its window; a gzip member needs fewer. */
#define HEAD_MAX 18

struct decoder {
    int fd;
    enum hf_merge_coding coding;
    bool at_end;   /* of the file; what remains is in `input` */
    bool in_frame; /* within a gzip member or a zstd frame */
    uint64_t position;
    bool sums;       /* compute ... */
    uint32_t crc32c; /* ... of all bytes up to the position */
    struct budget *budget;
    size_t library_bytes; /* memory of the library besides the buffers of a frame */
    size_t memory_bytes;  /* taken from the budget */
    char *input;          /* `head`, or INPUT_BYTES of memory */
    size_t input_capacity;
    size_t input_at; /* bytes from here to input_size are still unused */
    size_t input_size;
    char head[HEAD_MAX];
    z_stream gzip;
    ZSTD_DCtx *zstd;
};

/* ---- The file ------------------------------------------------------------------------ */

static enum hf_status read_raw(struct decoder *decoder, char *bytes, size_t size,
                               size_t *ret_size, struct hf_error *error)
{
    ssize_t got;
    do
        got = read(decoder->fd, bytes, size);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return error_from_errno(error, errno, "read");
    decoder->at_end = got == 0;
    decoder->position += (uint64_t)got;
    if (decoder->sums)
        decoder->crc32c = crc32c(decoder->crc32c, (struct view){ bytes, (size_t)got });
    *ret_size = (size_t)got;
    return HF_OK;
}

static struct view unused_input(const struct decoder *decoder)
{
    return (struct view){ decoder->input + decoder->input_at,
                          decoder->input_size - decoder->input_at };
}

/* Ensures at least `want` bytes of input, or all bytes up to the end of the file. */
static enum hf_status want_input(struct decoder *decoder, size_t want, struct hf_error *error)
{
    struct view unused = unused_input(decoder);
    if (unused.size >= want || decoder->at_end)
        return HF_OK;
    memmove(decoder->input, unused.data, unused.size);
    decoder->input_at = 0;
    decoder->input_size = unused.size;
    while (decoder->input_size < want && !decoder->at_end) {
        size_t got = 0;
        enum hf_status status =
            read_raw(decoder, decoder->input + decoder->input_size,
                     decoder->input_capacity - decoder->input_size, &got, error);
        if (status != HF_OK)
            return status;
        decoder->input_size += got;
    }
    return HF_OK;
}

/* First returns the bytes that were read to detect the coding, then reads directly. */
static enum hf_status read_plain(struct decoder *decoder, char *bytes, size_t size,
                                 size_t *ret_size, struct hf_error *error)
{
    struct view first = view_first(unused_input(decoder), size);
    size_t got = 0;
    memcpy(bytes, first.data, first.size);
    if (first.size < size && !decoder->at_end) {
        enum hf_status status =
            read_raw(decoder, bytes + first.size, size - first.size, &got, error);
        if (status != HF_OK)
            return status;
    }
    decoder->input_at += first.size;
    *ret_size = first.size + got;
    return HF_OK;
}

/* ---- Memory of a frame --------------------------------------------------------------- */

static uint64_t little_endian(const char *bytes, size_t size)
{
    uint64_t number = 0;
    for (size_t i = size; i-- > 0;)
        number = number << 8 | (unsigned char)bytes[i];
    return number;
}

static bool is_gzip(struct view input)
{
    return view_starts_with(input, VIEW("\x1f\x8b\x08"));
}

static bool is_zstd_data(struct view input)
{
    return view_starts_with(input, VIEW("\x28\xb5\x2f\xfd"));
}

/* Whether this is the start of a zstd frame with data, or of a frame to be skipped. */
static bool is_zstd(struct view input)
{
    return is_zstd_data(input) ||
           (input.size >= 4 && (little_endian(input.data, 4) & ~UINT64_C(15)) == 0x184d2a50);
}

static uint64_t smaller_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The size of the buffers that the library allocates for a frame, according to the frame's header
 * (RFC 8878 section 3.1.1.1): one buffer for a block, and one for the window and two blocks or, if
 * that is known to be smaller, for the whole content. 0 if the header is incomplete. */
static uint64_t zstd_frame_bytes(struct view input)
{
    static const size_t id_sizes[] = { 0, 1, 2, 4 }, content_sizes[] = { 0, 2, 4, 8 };
    const uint64_t far = UINT64_C(1) << 48; /* above every window; sums cannot overflow */
    if (input.size < 6)
        return 0;
    unsigned descriptor = (unsigned char)input.data[4], code = (unsigned char)input.data[5];
    bool single = descriptor & 0x20;
    size_t at = single ? 5 : 6;
    at += id_sizes[descriptor & 3];
    size_t content_size = content_sizes[descriptor >> 6];
    if (single && content_size == 0)
        content_size = 1;
    if (input.size < at + content_size)
        return 0;
    uint64_t content = content_size ? little_endian(input.data + at, content_size) : far;
    content = smaller_u64(content + (content_size == 2 ? 256 : 0), far);
    uint64_t base = UINT64_C(1) << (10 + (code >> 3));
    uint64_t window = single ? content : base + base / 8 * (code & 7);
    uint64_t block = smaller_u64(window, 128 * KIB);
    return block + smaller_u64(content, window + 2 * block) + 128;
}

static enum hf_status decoder_take_memory(struct decoder *decoder, uint64_t frame_bytes,
                                          struct hf_error *error)
{
    char need_text[SIZE_TEXT_MAX], room_text[SIZE_TEXT_MAX];
    uint64_t need = sizeof *decoder + INPUT_BYTES + decoder->library_bytes + frame_bytes;
    if (need <= decoder->memory_bytes)
        return HF_OK;
    size_t room = decoder->memory_bytes + budget_left(decoder->budget);
    if (need > SIZE_MAX / 2 ||
        !budget_take(decoder->budget, (size_t)need - decoder->memory_bytes))
        return error_set(error, HF_UNSUPPORTED,
                         "decompressing it needs %s of memory, but only %s is left",
                         size_text(need, need_text), size_text(room, room_text));
    decoder->memory_bytes = (size_t)need;
    return HF_OK;
}

/* ---- Frames -------------------------------------------------------------------------- */

static enum hf_status damaged_data(const struct decoder *decoder, const char *how,
                                   struct hf_error *error)
{
    return error_set(error, HF_CORRUPT, "its %s data is damaged before byte %" PRIu64 ": %s",
                     decoder->coding == HF_MERGE_GZIP ? "gzip" : "zstd",
                     decoder->position - unused_input(decoder).size, how);
}

/* Must be called before each gzip member or zstd frame, when its first bytes are in the input. */
static enum hf_status begin_frame(struct decoder *decoder, struct hf_error *error)
{
    struct view input = unused_input(decoder);
    bool gzip = decoder->coding == HF_MERGE_GZIP;
    if (gzip ? !is_gzip(input) : !is_zstd(input))
        return damaged_data(decoder, "other data follows the compressed data", error);
    if (gzip)
        check(inflateReset(&decoder->gzip) == Z_OK);
    decoder->in_frame = true;
    return decoder_take_memory(decoder, is_zstd_data(input) ? zstd_frame_bytes(input) : 0,
                               error);
}

static enum hf_status inflate_some(struct decoder *decoder, char *bytes, size_t size,
                                   size_t *ret_size, struct hf_error *error)
{
    struct view input = unused_input(decoder);
    uInt room = size < UINT_MAX ? (uInt)size : UINT_MAX;
    z_stream *stream = &decoder->gzip;
    stream->next_in = (const Bytef *)input.data;
    stream->avail_in = (uInt)input.size;
    stream->next_out = (Bytef *)bytes;
    stream->avail_out = room;
    int code = inflate(stream, Z_NO_FLUSH);
    decoder->input_at += input.size - stream->avail_in;
    *ret_size = room - stream->avail_out;
    if (code == Z_MEM_ERROR)
        return error_no_memory(error);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        return damaged_data(decoder, stream->msg ? stream->msg : "invalid data", error);
    decoder->in_frame = code != Z_STREAM_END;
    return HF_OK;
}

static enum hf_status unzstd_some(struct decoder *decoder, char *bytes, size_t size,
                                  size_t *ret_size, struct hf_error *error)
{
    struct view input = unused_input(decoder);
    ZSTD_inBuffer in = { input.data, input.size, 0 };
    ZSTD_outBuffer out = { bytes, size, 0 };
    size_t code = ZSTD_decompressStream(decoder->zstd, &out, &in);
    decoder->input_at += in.pos;
    *ret_size = out.pos;
    if (!ZSTD_isError(code)) {
        decoder->in_frame = code != 0;
        return HF_OK;
    }
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation)
        return error_no_memory(error);
    if (ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge)
        return error_set(error, HF_UNSUPPORTED,
                         "its zstd window is larger than this build supports");
    return damaged_data(decoder, ZSTD_getErrorName(code), error);
}

/* Ends at the end of the file, which must also be the end of a frame. The loop terminates, because
 * every iteration consumes input or produces bytes. */
static enum hf_status read_compressed(struct decoder *decoder, char *bytes, size_t size,
                                      size_t *ret_size, struct hf_error *error)
{
    for (;;) {
        enum hf_status status = want_input(decoder, decoder->in_frame ? 1 : HEAD_MAX, error);
        size_t made = 0, left = unused_input(decoder).size;
        if (status == HF_OK && !decoder->in_frame && left > 0)
            status = begin_frame(decoder, error);
        if (status == HF_OK && decoder->in_frame)
            status = decoder->coding == HF_MERGE_GZIP
                         ? inflate_some(decoder, bytes, size, &made, error)
                         : unzstd_some(decoder, bytes, size, &made, error);
        if (status != HF_OK)
            return status;
        if (made > 0 || (left == 0 && !decoder->in_frame)) {
            *ret_size = made;
            return HF_OK;
        }
        if (left == unused_input(decoder).size)
            return damaged_data(decoder, left ? "the data does not advance" : "it ends early",
                                error);
    }
}

enum hf_status decoder_read(struct decoder *decoder, char *bytes, size_t size, size_t *ret_size,
                            struct hf_error *error)
{
    check(size > 0);
    return decoder->coding == HF_MERGE_PLAIN
               ? read_plain(decoder, bytes, size, ret_size, error)
               : read_compressed(decoder, bytes, size, ret_size, error);
}

/* ---- Lifetime ------------------------------------------------------------------------ */

static bool open_zstd_decoder(struct decoder *decoder)
{
    decoder->zstd = ZSTD_createDCtx();
    if (!decoder->zstd)
        return false;
    decoder->library_bytes = ZSTD_sizeof_DCtx(decoder->zstd);
    /* The exact limit of the window is enforced by check_room. */
    int window_log_max = ZSTD_dParam_getBounds(ZSTD_d_windowLogMax).upperBound;
    ZSTD_DCtx_setParameter(decoder->zstd, ZSTD_d_windowLogMax, window_log_max);
    return true;
}

/* Moves the bytes that were already read into a larger buffer, and examines the first frame. */
static enum hf_status open_compressed(struct decoder *decoder, enum hf_merge_coding coding,
                                      struct hf_error *error)
{
    char *input = malloc(INPUT_BYTES);
    if (!input)
        return error_no_memory(error);
    memcpy(input, decoder->head, decoder->input_size);
    decoder->input = input;
    decoder->input_capacity = INPUT_BYTES;
    decoder->library_bytes = GZIP_BYTES;
    bool opened = coding == HF_MERGE_GZIP
                      /* 16: gzip only */
                      ? inflateInit2(&decoder->gzip, 16 + MAX_WBITS) == Z_OK
                      : open_zstd_decoder(decoder);
    if (!opened)
        return error_set(error, HF_UNAVAILABLE,
                         "cannot decompress the file: %s is missing, or out of memory",
                         coding == HF_MERGE_GZIP ? "libz" : "libzstd");
    decoder->coding = coding;
    return begin_frame(decoder, error);
}

/* Releases everything except the descriptor. */
static void decoder_release(struct decoder *decoder)
{
    if (decoder->coding == HF_MERGE_GZIP)
        inflateEnd(&decoder->gzip);
    ZSTD_freeDCtx(decoder->zstd);
    if (decoder->input != decoder->head)
        free(decoder->input);
    budget_give(decoder->budget, decoder->memory_bytes);
    free(decoder);
}

enum hf_status decoder_new(int fd, bool sums, struct budget *budget,
                           struct decoder **ret_decoder, struct hf_error *error)
{
    struct decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder)
        return error_no_memory(error);
    decoder->fd = fd;
    decoder->sums = sums;
    decoder->coding = HF_MERGE_PLAIN;
    decoder->budget = budget;
    decoder->input = decoder->head;
    decoder->input_capacity = HEAD_MAX;
    enum hf_status status = want_input(decoder, HEAD_MAX, error);
    struct view head = unused_input(decoder);
    enum hf_merge_coding coding = head.size < 4   ? HF_MERGE_PLAIN
                                  : is_gzip(head) ? HF_MERGE_GZIP
                                  : is_zstd(head) ? HF_MERGE_ZSTD
                                                  : HF_MERGE_PLAIN;
    if (status == HF_OK && coding != HF_MERGE_PLAIN)
        status = open_compressed(decoder, coding, error);
    if (status == HF_OK)
        *ret_decoder = decoder;
    else
        decoder_release(decoder);
    return status;
}

void decoder_free(struct decoder *decoder)
{
    if (!decoder)
        return;
    close(decoder->fd);
    decoder_release(decoder);
}

enum hf_merge_coding decoder_coding(const struct decoder *decoder)
{
    return decoder->coding;
}

uint64_t decoder_position(const struct decoder *decoder)
{
    return decoder->position;
}

uint32_t decoder_crc32c(const struct decoder *decoder)
{
    return decoder->crc32c;
}
