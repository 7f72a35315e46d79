/* SPDX-License-Identifier: Apache-2.0 */
/* encode.c: compresses the output. The library gets pieces of one fixed size, regardless of the
 * size of the writes, so equal input gives equal output. */
#include "base/check.h"
#include "base/limits.h"
#include "merge/codec.h"

#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#define PIECE_BYTES  (128 * KIB)
#define OUTPUT_BYTES (64 * KIB)

#define GZIP_LEVEL 6
#define ZSTD_LEVEL 3

struct encoder {
    enum hf_merge_coding coding;
    bool ended;
    z_stream gzip;
    ZSTD_CCtx *zstd;
    size_t piece_size;
    char piece[PIECE_BYTES];
    char output[OUTPUT_BYTES];
};

static bool open_gzip_encoder(struct encoder *encoder)
{
    /* 16: with a gzip header, whose time is 0 and name empty by default; 8: the default memory
     * level. */
    return deflateInit2(&encoder->gzip, GZIP_LEVEL, Z_DEFLATED, 16 + MAX_WBITS, 8,
                        Z_DEFAULT_STRATEGY) == Z_OK;
}

static bool open_zstd_encoder(struct encoder *encoder)
{
    encoder->zstd = ZSTD_createCCtx();
    return encoder->zstd &&
           !ZSTD_isError(
               ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL)) &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_checksumFlag, 1));
}

enum hf_status encoder_new(enum hf_merge_coding coding, struct encoder **ret_encoder,
                           struct hf_error *error)
{
    check(coding == HF_MERGE_GZIP || coding == HF_MERGE_ZSTD);
    struct encoder *encoder = calloc(1, sizeof *encoder);
    if (!encoder)
        return error_no_memory(error);
    encoder->coding = coding;
    if (coding == HF_MERGE_GZIP ? !open_gzip_encoder(encoder) : !open_zstd_encoder(encoder)) {
        encoder_free(encoder);
        return error_set(error, HF_UNAVAILABLE,
                         "cannot compress the file: %s is missing, or out of memory",
                         coding == HF_MERGE_GZIP ? "libz" : "libzstd");
    }
    *ret_encoder = encoder;
    return HF_OK;
}

void encoder_free(struct encoder *encoder)
{
    if (!encoder)
        return;
    if (encoder->coding == HF_MERGE_GZIP)
        deflateEnd(&encoder->gzip);
    ZSTD_freeCCtx(encoder->zstd);
    free(encoder);
}

/* Compresses until the output is full or the piece is consumed. *ret_done: the piece is consumed,
 * and only the end of the stream can produce more output. */
static enum hf_status deflate_some(struct encoder *encoder, size_t *used, bool last,
                                   size_t *ret_size, bool *ret_done, struct hf_error *error)
{
    z_stream *stream = &encoder->gzip;
    stream->next_in = (Bytef *)encoder->piece + *used;
    stream->avail_in = (uInt)(encoder->piece_size - *used);
    stream->next_out = (Bytef *)encoder->output;
    stream->avail_out = OUTPUT_BYTES;
    int code = deflate(stream, last ? Z_FINISH : Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        return error_set(error, HF_UNAVAILABLE, "gzip failed: %s", zError(code));
    *used = encoder->piece_size - stream->avail_in;
    *ret_size = OUTPUT_BYTES - stream->avail_out;
    *ret_done = last ? code == Z_STREAM_END : stream->avail_in == 0 && stream->avail_out > 0;
    return HF_OK;
}

static enum hf_status zstd_some(struct encoder *encoder, size_t *used, bool last,
                                size_t *ret_size, bool *ret_done, struct hf_error *error)
{
    ZSTD_inBuffer in = { encoder->piece, encoder->piece_size, *used };
    ZSTD_outBuffer out = { encoder->output, OUTPUT_BYTES, 0 };
    size_t code =
        ZSTD_compressStream2(encoder->zstd, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(code))
        return error_set(error, HF_UNAVAILABLE, "zstd failed: %s", ZSTD_getErrorName(code));
    *used = in.pos;
    *ret_size = out.pos;
    *ret_done = last ? code == 0 : in.pos == in.size;
    return HF_OK;
}

static enum hf_status compress_piece(struct encoder *encoder, bool last, encoder_write write,
                                     void *context, struct hf_error *error)
{
    size_t used = 0;
    for (bool done = false; !done;) {
        size_t size = 0;
        enum hf_status status = encoder->coding == HF_MERGE_GZIP
                                    ? deflate_some(encoder, &used, last, &size, &done, error)
                                    : zstd_some(encoder, &used, last, &size, &done, error);
        if (status == HF_OK && size > 0)
            status = write(context, (struct view){ encoder->output, size }, error);
        if (status != HF_OK)
            return status;
    }
    encoder->piece_size = 0;
    return HF_OK;
}

enum hf_status encoder_add(struct encoder *encoder, struct view bytes, bool last,
                           encoder_write write, void *context, struct hf_error *error)
{
    check(!encoder->ended);
    while (bytes.size > 0) {
        struct view part = view_first(bytes, PIECE_BYTES - encoder->piece_size);
        memcpy(encoder->piece + encoder->piece_size, part.data, part.size);
        encoder->piece_size += part.size;
        bytes = view_from(bytes, part.size);
        if (encoder->piece_size < PIECE_BYTES)
            break;
        enum hf_status status = compress_piece(encoder, false, write, context, error);
        if (status != HF_OK)
            return status;
    }
    encoder->ended = last;
    return last ? compress_piece(encoder, true, write, context, error) : HF_OK;
}
