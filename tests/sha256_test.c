/* SPDX-License-Identifier: Apache-2.0 */
/* sha256_test.c: SHA-256 against the examples of the standard, and against libcrypto. */
#include "base/hash.h"
#include "base/parse.h"
#include "base/prng.h"
#include "base/siphash.h"
#include "test.h"

#include <openssl/evp.h>
#include <stdlib.h>

static void assert_digest(struct view bytes, const char *expected)
{
    unsigned char digest[SHA256_BYTES];
    char hex[2 * SHA256_BYTES + 1];
    hash_sha256(bytes, digest);
    hex_encode(digest, sizeof digest, hex);
    assert_string_equal(hex, expected);
}

static void the_examples_of_the_standard_hold(void **state)
{
    (void)state;
    assert_digest(VIEW(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_digest((struct view){ NULL, 0 },
                  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_digest(VIEW("abc"),
                  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_digest(VIEW("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_digest(VIEW("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                       "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
                  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

static void a_million_letters_have_the_digest_of_the_standard(void **state)
{
    (void)state;
    size_t size = 1000000;
    char *letters = malloc(size);
    assert_non_null(letters);
    memset(letters, 'a', size);
    assert_digest((struct view){ letters, size },
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(letters);
}

static void assert_as_libcrypto(struct view bytes)
{
    unsigned char ours[SHA256_BYTES], theirs[SHA256_BYTES];
    hash_sha256(bytes, ours);
    assert_int_equal(EVP_Digest(bytes.data, bytes.size, theirs, NULL, EVP_sha256(), NULL), 1);
    assert_memory_equal(ours, theirs, sizeof ours);
}

static void in_pieces_it_is_the_same(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(14);
    char bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)prng_next(&prng);
    for (int round = 0; round < 500; round++) {
        struct view left = { bytes, (size_t)prng_below(&prng, sizeof bytes + 1) };
        unsigned char whole[SHA256_BYTES], pieces[SHA256_BYTES];
        struct hash_sha256_stream stream;
        hash_sha256(left, whole);
        hash_sha256_init(&stream);
        while (left.size > 0) {
            size_t size = (size_t)prng_below(&prng, round % 2 ? 5 : 200);
            size = size < left.size ? size : left.size;
            hash_sha256_add(&stream, view_first(left, size));
            left = view_from(left, size);
        }
        hash_sha256_end(&stream, pieces);
        assert_memory_equal(whole, pieces, sizeof whole);
    }
}

/* Each in a block of exactly its size, so that a sanitizer sees a step too far; and from an odd
 * address. */
static void every_length_is_as_libcrypto_has_it(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(13);
    for (size_t size = 0; size <= 400; size++) {
        char *bytes = malloc(size + 1);
        assert_non_null(bytes);
        for (size_t i = 0; i <= size; i++)
            bytes[i] = (char)prng_next(&prng);
        assert_as_libcrypto((struct view){ bytes, size });
        assert_as_libcrypto((struct view){ bytes + 1, size });
        free(bytes);
    }
}

/* RFC 4231, test cases 1, 2 and 6. */
static void the_examples_of_hmac_hold(void **state)
{
    (void)state;
    char twenty[20], many[131];
    memset(twenty, 0x0b, sizeof twenty);
    memset(many, (char)0xaa, sizeof many);
    const struct {
        struct view key, text;
        const char *expected;
    } rows[] = {
        { { twenty, sizeof twenty },
          VIEW("Hi There"),
          "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
        { VIEW("Jefe"), VIEW("what do ya want for nothing?"),
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
        { { many, sizeof many },
          VIEW("Test Using Larger Than Block-Size Key - Hash Key First"),
          "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned char digest[SHA256_BYTES];
        char hex[2 * SHA256_BYTES + 1];
        hash_hmac_sha256(rows[i].key, rows[i].text, digest);
        hex_encode(digest, sizeof digest, hex);
        assert_string_equal(hex, rows[i].expected);
    }
}

/* The example of the paper: the bytes 0 to 14, with the bytes 0 to 15 as the key. Of the other
 * lengths, those around the words of eight bytes, from the reference implementation. */
static void the_examples_of_siphash_hold(void **state)
{
    (void)state;
    unsigned char key[SIPHASH_KEY_BYTES];
    char bytes[16];
    for (unsigned char i = 0; i < 16; i++) {
        key[i] = i;
        bytes[i] = (char)i;
    }
    assert_int_equal(hash_siphash(key, (struct view){ bytes, 15 }),
                     UINT64_C(0xa129ca6149be45e5));
    assert_int_equal(hash_siphash(key, (struct view){ bytes, 0 }),
                     UINT64_C(0x726fdb47dd0e0e31));
    assert_int_equal(hash_siphash(key, (struct view){ bytes, 8 }),
                     UINT64_C(0x93f5f5799a932462));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("the examples of the standard have their digests",
           the_examples_of_the_standard_hold),
        IT("a million letters have the digest of the standard",
           a_million_letters_have_the_digest_of_the_standard),
        IT("texts of every length have the digest that libcrypto finds",
           every_length_is_as_libcrypto_has_it),
        IT("bytes that come in pieces have the same digest", in_pieces_it_is_the_same),
        IT("the examples of HMAC have their codes", the_examples_of_hmac_hold),
        IT("the examples of SipHash have their hashes", the_examples_of_siphash_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
