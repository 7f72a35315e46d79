/* codec.h: bytes of files, decompressed as they are read, compressed as they are written. */
#ifndef MERGE_CODEC_H
#define MERGE_CODEC_H

#include "base/error.h"
#include "base/view.h"
#include "merge/budget.h"
#include "merge/merge.h"

#include <stdint.h>

struct decoder; /* reads one file */
struct encoder; /* makes bytes for one file */

/* Takes the descriptor over, on success only. Its first bytes tell how it is compressed: gzip and
 * zstd by their magic numbers, else it is taken as it stands. What it holds of memory is taken
 * from the budget, now and where a later frame needs more; when that does not suffice it is
 * UNSUPPORTED, with a reason that names the need. */
enum hf_status decoder_new(int fd, struct budget *budget, struct decoder **ret_decoder,
                           struct hf_error *error);
void decoder_free(struct decoder *decoder);

/* Fills up to `size` bytes; *ret_size is 0 at the end only. Concatenated gzip members and zstd
 * frames are one stream, as the tools have it. Compressed data that is damaged, ends early or is
 * followed by something else is CORRUPT. */
enum hf_status decoder_read(struct decoder *decoder, char *bytes, size_t size, size_t *ret_size,
                            struct hf_error *error);

/* How it is compressed. */
enum merge_coding decoder_coding(const struct decoder *decoder);

/* Bytes of the file that were read so far, for progress. */
uint64_t decoder_position(const struct decoder *decoder);

/* `coding` is not MERGE_PLAIN. Equal bytes give equal output: no time, no name goes into it. */
enum hf_status encoder_new(enum merge_coding coding, struct encoder **ret_encoder,
                           struct hf_error *error);
void encoder_free(struct encoder *encoder);

/* Compresses, and hands what comes of it to `write` in pieces. `last` ends the stream. A status
 * of `write` other than OK is returned as it is. */
typedef enum hf_status (*encoder_write)(void *context, struct view bytes,
                                        struct hf_error *error);
enum hf_status encoder_add(struct encoder *encoder, struct view bytes, bool last,
                           encoder_write write, void *context, struct hf_error *error);

#endif
