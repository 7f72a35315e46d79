/* SPDX-License-Identifier: Apache-2.0 */
/* codec.h: decompresses files as they are read, and compresses them as they are written. */
#ifndef MERGE_CODEC_H
#define MERGE_CODEC_H

#include "base/error.h"
#include "base/view.h"
#include "merge/budget.h"
#include "merge/merge.h"

#include <stdint.h>

struct decoder; /* reads one file */
struct encoder; /* produces the bytes of one file */

/* Takes ownership of the descriptor only on success. `sums`: compute the checksum of the file. The
 * first bytes determine the coding: gzip and
 * zstd have magic numbers, everything else is plain. Memory is taken from the budget now, and again
 * if a later frame needs more. UNSUPPORTED, with the size needed, if the budget is too small. */
enum hf_status decoder_new(int fd, bool sums, struct budget *budget,
                           struct decoder **ret_decoder, struct hf_error *error);
void decoder_free(struct decoder *decoder);

/* Reads up to `size` bytes; *ret_size is 0 only at the end. Concatenated gzip members or zstd
 * frames form one stream, as in the gzip and zstd tools. CORRUPT: the compressed data is damaged,
 * ends early or is followed by something else. */
enum hf_status decoder_read(struct decoder *decoder, char *bytes, size_t size, size_t *ret_size,
                            struct hf_error *error);

/* How the file is compressed. */
enum hf_merge_coding decoder_coding(const struct decoder *decoder);

/* The number of bytes of the file that were read so far, for progress. */
uint64_t decoder_position(const struct decoder *decoder);

/* The CRC32C of these bytes, if it is computed. */
uint32_t decoder_crc32c(const struct decoder *decoder);

/* `coding` must not be HF_MERGE_PLAIN. Equal input gives equal output, because the output contains
 * no time and no name. */
enum hf_status encoder_new(enum hf_merge_coding coding, struct encoder **ret_encoder,
                           struct hf_error *error);
void encoder_free(struct encoder *encoder);

/* Compresses, and passes the result to `write` in pieces. `last` ends the stream. If `write` fails,
 * its status is returned. */
typedef enum hf_status (*encoder_write)(void *context, struct view bytes,
                                        struct hf_error *error);
enum hf_status encoder_add(struct encoder *encoder, struct view bytes, bool last,
                           encoder_write write, void *context, struct hf_error *error);

#endif
