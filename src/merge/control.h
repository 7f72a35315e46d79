/* SPDX-License-Identifier: Apache-2.0 */
/* control.h: finds control bytes, 64 at a time, as a bit mask. Formats whose separators are
 * all below 0x20 find them this way, without a branch per byte. */
#ifndef MERGE_CONTROL_H
#define MERGE_CONTROL_H

#include <stdint.h>
#include <string.h>

#define CONTROL_BYTES 64 /* this many must be readable */

#if defined(__ARM_NEON) && defined(__aarch64__)

#include <arm_neon.h>

static inline uint8x16_t control_weights(const char *bytes)
{
    static const uint8_t weights[16] = { 1, 2, 4, 8, 16, 32, 64, 128,
                                         1, 2, 4, 8, 16, 32, 64, 128 };
    uint8x16_t below = vcltq_u8(vld1q_u8((const uint8_t *)bytes), vdupq_n_u8(0x20));
    return vandq_u8(below, vld1q_u8(weights));
}

/* Bit i is set where bytes[i] < 0x20. */
static inline uint64_t control_bits(const char *bytes)
{
    uint8x16_t low = vpaddq_u8(control_weights(bytes), control_weights(bytes + 16));
    uint8x16_t high = vpaddq_u8(control_weights(bytes + 32), control_weights(bytes + 48));
    uint8x16_t all = vpaddq_u8(low, high);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(all, all)), 0);
}

#elif defined(__SSE2__)

#include <emmintrin.h>

static inline uint64_t control_bits_16(const char *bytes)
{
    __m128i word = _mm_loadu_si128((const void *)bytes);
    __m128i below = _mm_cmpeq_epi8(_mm_min_epu8(word, _mm_set1_epi8(0x1f)), word);
    return (uint64_t)(uint32_t)_mm_movemask_epi8(below);
}

/* Bit i is set where bytes[i] < 0x20. */
static inline uint64_t control_bits(const char *bytes)
{
    return control_bits_16(bytes) | control_bits_16(bytes + 16) << 16 |
           control_bits_16(bytes + 32) << 32 | control_bits_16(bytes + 48) << 48;
}

#else

/* Bit i is set where bytes[i] < 0x20. */
static inline uint64_t control_bits(const char *bytes)
{
    uint64_t bits = 0;
    for (unsigned i = 0; i < CONTROL_BYTES; i++)
        bits |= (uint64_t)((unsigned char)bytes[i] < 0x20) << i;
    return bits;
}

#endif
#endif
